"""The kernel lab: one program's walk over physical blocks, the address of K spelled out, and softmax as it goes.

``marks(scene)`` is a pure function of a watched run, the query head and how many blocks were read.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pagedlab.viz.kit.areas import Area
from pagedlab.viz.kit.chips import chip
from pagedlab.viz.kit.flow import Flow
from pagedlab.viz.kit.grid import pool_grid
from pagedlab.viz.kit.head import LEFT, RIGHT, top_line
from pagedlab.viz.kit.labels import plural
from pagedlab.viz.kit.marks import Mark
from pagedlab.viz.kit.slots import bar
from pagedlab.viz.kit.text import fitted

if TYPE_CHECKING:
    from pagedlab.attention.diary import Diary

SIZE = (960.0, 500.0)
ADDRESS = 400.0
TABLE_TOP, ENTRY, ENTRIES = 122.0, (84.0, 40.0), 4  # the block table: an entry's size, how many in each of two rows
MEMORY = (24.0, 246.0, 912.0, 70.0)
SOFTMAX_TOP, MOST_ROWS, OUTPUT = 339.0, 5, 24
COLUMNS = ((84.0, "largest score"), (230.0, "running max m"), (370.0, "rescale e^(m before − m)"), (560.0, "sum l"))
DIALECTS = ((60.0, 138.0, 228.0, 316.0), (392.0, 470.0, 560.0, 648.0))  # Triton's columns, WGSL's
VERDICTS = (724.0, 806.0)
ROUNDING = 1e-5  # of numbers of float32 that are added up in another order
_ABOVE = (
    Area((0, 0, 960, 50)),
    Area((0, 50, 396, 50)),
    Area((0, 100, 396, 120)),
    Area((396, 50, 564, 14)),
)
AREAS = (
    *_ABOVE,
    Area((396, 64, 564, 156), "table"),
    Area((0, 220, 960, 104)),
    Area((0, 324, 960, 24)),
    Area((0, 348, 960, 130), "table", heads=((80, 348, 880, 14),)),
    Area((0, 478, 960, 22)),
)
DIALECT_AREAS = (
    *AREAS[:-2],
    *(Area((x - 13, 400, 3, 20), "omit") for x in (392, 724)),  # the lines between the columns
    Area((0, 348, 960, 124), "table", heads=((56, 348, 904, 14),)),
    Area((0, 472, 960, 28)),
)
TIMELINE_AREAS = (
    *_ABOVE,
    Area((396, 64, 564, 156)),
    Area((0, 220, 960, 104)),
    Area((0, 324, 960, 20)),
    Area((0, 344, 960, 156), "chart", (64, RIGHT)),
)


@dataclass(frozen=True)
class Walk:
    """One query's walk, as plain data. ``spans[kv head]``: (iteration, logical, physical) of each block in the order
    read. ``rows[query head]``: (scores, largest, total, rescale, output) of each iteration. ``base``: byte address of
    K of block 0, token 0, head 0; ``strides``: of a block, a token and a head, in elements.

    A recording of kernel spans alone has no ``rows``: which blocks were read when, but no number that was in them.
    Then a "head" is a program, and each of the run's has its entry in ``spans``, ``clocks`` and ``programs``.

    ``diaries``: what the plain kernel wrote down, in WGSL, or in Triton and in WGSL; ``largest`` and ``total`` are then
    WGSL's. ``again``: what a page needs to run the query once more, see ``attention/again.py``."""

    name: str  # the request's
    hue: int
    layer: int
    context: int
    block_size: int
    num_blocks: int  # of the pool
    tile: int
    group: int
    spans: list[list[tuple[int, int, int]]]
    rows: list[list[tuple[list[float], float, float, float | None, list[float]]]]
    base: int | None  # None: in a GPU's buffer, or another process; there only the place in this layer's K is known
    strides: tuple[int, int, int]
    element: int  # bytes
    difference: float
    where: str
    clocks: list[tuple[int, int, int] | None]  # of each KV head's program, on a GPU: SM, start and end in ns
    badge: str
    live: bool
    programs: tuple[str, ...] = ()
    diaries: tuple[Diary, ...] = ()
    again: dict[str, Any] | None = None

    @property
    def num_heads(self) -> int:
        return len(self.rows or self.spans)


@dataclass(frozen=True)
class Scene:
    """``read``: how many blocks were read so far; ``head``: the query head; ``guess``: the block pointed at."""

    walk: Walk
    head: int
    read: int
    guess: int | None = None

    @property
    def kv_head(self) -> int:
        return self.head // self.walk.group

    @property
    def span(self) -> list[tuple[int, int, int]]:
        return self.walk.spans[self.kv_head]

    @property
    def now(self) -> tuple[int, int, int] | None:
        """Iteration, logical and physical block of the block read last."""
        return self.span[min(self.read, len(self.span)) - 1] if self.read else None

    @property
    def num_rows(self) -> int:
        """Iterations that are over: all of their blocks were read."""
        if self.read >= len(self.span):
            return len(self.walk.rows[self.head])
        return self.span[self.read][0]

    @property
    def rows(self) -> list[tuple[list[float], float, float, float | None, list[float]]]:
        return self.walk.rows[self.head][: self.num_rows] if self.walk.rows else []

    def tokens(self, logical: int) -> tuple[int, int]:
        """First and last position of a logical block."""
        first = logical * self.walk.block_size
        return first, min(first + self.walk.block_size, self.walk.context) - 1


def headline(scene: Scene) -> str:
    w = scene.walk
    if not w.rows:
        if scene.now is None:
            return f"{w.programs[scene.head]} reads {len(scene.span)} blocks"
        iteration, logical, physical = scene.now
        return f"i={iteration} reads logical block {logical}: block #{physical}"
    if scene.now is None:
        return f"{w.name}'s newest token asks all {w.context} tokens: they lie in {len(scene.span)} blocks"
    iteration, logical, physical = scene.now
    first, last = scene.tokens(logical)
    tokens = f"token {first}" if first == last else f"tokens {first} to {last}"
    return f"i={iteration} reads logical block {logical}: {tokens}, in block #{physical}"


def title(scene: Scene) -> str:
    who = f"query head {scene.head}" if scene.walk.rows else scene.walk.programs[scene.head]
    return f"Kernel, {who}, {min(scene.read, len(scene.span))} of {len(scene.span)} blocks read. {headline(scene)}"


def marks(scene: Scene) -> list[Mark]:
    numbers = [*_address(scene), *_iterations(scene)] if scene.walk.rows else list(_timeline(scene))
    return [*_header(scene), *_heads(scene), *_table(scene), *_memory(scene), *numbers]


def areas(walk: Walk) -> tuple[Area, ...]:
    if not walk.rows:
        return TIMELINE_AREAS
    return DIALECT_AREAS if len(walk.diaries) > 1 else AREAS


def _header(scene: Scene) -> Iterator[Mark]:
    yield from top_line(headline(scene), scene.walk.badge, scene.walk.live)


def _heads(scene: Scene) -> Iterator[Mark]:
    w = scene.walk
    first = max(0, min(scene.head - 4, w.num_heads - 9))
    heads = range(first, min(first + 9, w.num_heads))
    text = f"PROGRAM of {w.name}, layer {w.layer}" if w.rows else w.programs[scene.head].upper()
    line = Flow(LEFT, 66).text("program.title", text, "s11 bold soft", 10)
    if w.rows:
        served = f"KV head {scene.kv_head}, which query head {scene.head} reads"
        if w.group > 1:
            of = scene.kv_head * w.group
            served = f"KV head {scene.kv_head}, for query heads {of} to {of + w.group - 1}"
        line.text("program.head", served, "s11 soft")
    yield from line
    if (clock := w.clocks[scene.kv_head]) is not None:
        text = f"ran on SM {clock[0]}, from {clock[1]:,} to {clock[2]:,} ns"
        yield Mark("program.clock", (ADDRESS, TABLE_TOP + 2 * ENTRY[1] + 12), "text s11 soft", text)
    yield Mark("heads.title", (LEFT, 90), "text s11 soft", "query head" if w.rows else "program")
    for place, head in enumerate(heads):
        tip = f"Query head {head}, of KV head {head // w.group}" if w.rows else w.programs[head]
        box = (LEFT + 72 + 28 * place, 76, 24, 20)
        yield from chip(str(head), box, str(head), head == scene.head, tip=tip, size="s11", down=14)


def _table(scene: Scene) -> Iterator[Mark]:
    """The block table: what was read, what is read now, and what will be. Where it is long, eight entries around."""
    w, h = ENTRY
    read, most = min(scene.read, len(scene.span)), 2 * ENTRIES
    yield Mark("table.title", (LEFT, 114), "text s11 bold soft", "BLOCK TABLE")
    yield Mark("table.what", (LEFT + 90, 114), "text s11 soft", "logical → physical, tokens in it")
    first = 0
    if len(scene.span) > most:
        last_rows = ENTRIES * (math.ceil(len(scene.span) / ENTRIES) - 2)
        first = max(0, min(ENTRIES * ((read - 2) // ENTRIES), last_rows)) if read >= most else 0
        shown = f"{first} to {min(first + most, len(scene.span)) - 1} of {len(scene.span)}"
        yield Mark("table.shown", (LEFT + ENTRIES * (w + 8) - 8, 114), "text s11 soft end", shown)
    for place, i in enumerate(range(first, min(first + most, len(scene.span)))):
        iteration, logical, physical = scene.span[i]
        x, y, now = LEFT + place % ENTRIES * (w + 8), TABLE_TOP + place // ENTRIES * (h + 5), i == read - 1
        id, hue = f"entry.{i}", f"c{scene.walk.hue}"
        begin, end = scene.tokens(logical)
        cls = f"card owned {hue}{' mine' if now else ''}" if i < read else "card"
        yield Mark(id, (x, y, w, h), cls, tip=_tip(scene, i))
        soft = "" if i < read else " soft"
        entry = fitted(f"{logical} → #{physical}", w - 12, "s12 mono")
        yield Mark(f"{id}.p", (x + 7, y + 16), f"text mono s12{' bold' if now else ''}{soft}", entry)
        yield Mark(f"{id}.i", (x + 7, y + 32), "text mono s10 soft", f"i={iteration}")
        full = f"{end - begin + 1}/{scene.walk.block_size}"
        yield Mark(f"{id}.full", (x + w - 7, y + 32), "text mono s10 soft end", full)


def _tip(scene: Scene, i: int) -> str:
    iteration, logical, physical = scene.span[i]
    read = "read" if i < scene.read else "to be read"
    return f"Logical block {logical} is physical block #{physical}, {read} in iteration i={iteration}"


def _slots(scene: Scene, id: str, logical: int, box: tuple[float, float, float, float], now: bool) -> Iterator[Mark]:
    x, y, w, h = box
    size, hue = scene.walk.block_size, f"c{scene.walk.hue}"
    first, last = scene.tokens(logical)
    filled = last - first + 1
    dim = "" if now else " dim"
    gap = 2.0 if w / size >= 6 else 0.6
    pitch = (w + gap) / size
    if pitch < 2.5:
        yield from bar(id, box, filled, size, (), hue, dim.strip())
        return
    for o in range(filled):
        yield Mark(f"{id}.s{o}", (x + o * pitch, y, pitch - gap, h), f"cell sharp{dim} {hue}")
    if filled < size:  # in one piece: hatched slots this narrow cannot be told apart
        rest = (size - filled) * pitch - gap
        yield Mark(f"{id}.rest", (x + filled * pitch, y, rest, h), f"cell sharp hatched {hue}")


def address(scene: Scene) -> list[tuple[str, str, str]]:
    """(what, how it is reckoned, number) of K of the first token of the block read last."""
    w = scene.walk
    _, logical, physical = scene.now
    block, token, head = w.strides
    heads = len(w.spans)
    of_block = f" ({w.block_size} × {token:,})" if w.block_size * token == block else ""
    of_token = f" ({plural(heads, 'head')} × {head:,})" if heads * head == token else ""
    element = physical * block + scene.kv_head * head
    return [
        ("physical_block_number", f"block_table[{logical}]", str(physical)),
        ("× stride of a block", f"{physical} × {block:,}{of_block}", f"{physical * block:,}"),
        ("+ physical_block_offset × stride", f"0 × {token:,}{of_token}", "0"),
        ("+ KV head × stride of a head", f"{scene.kv_head} × {head:,}", f"{scene.kv_head * head:,}"),
        ("= element", "", f"{element:,}"),
        ("byte of this layer's K", f"{element:,} × {w.element}", f"{element * w.element:,}")
        if w.base is None
        else ("byte address", f"{w.base:#x} + {element:,} × {w.element}", f"{w.base + element * w.element:#x}"),
    ]


def _address(scene: Scene) -> Iterator[Mark]:
    yield Mark("address.title", (ADDRESS, 66), "text s11 bold soft", "ADDRESS OF K")
    if scene.now is None:
        yield Mark("address.none", (ADDRESS, 96), "text s13 soft", "The first block's comes with the first read.")
        return
    first, _ = scene.tokens(scene.now[1])
    what = f"token {first}, the first of this block; V's the same way"
    yield Mark("address.what", (ADDRESS + 104, 66), "text s11 soft", what)
    for i, (what, how, number) in enumerate(address(scene)):
        y, loud = 88 + i * 20 + (4 if i >= 4 else 0), " bold" if i >= 4 else ""
        hue = f" hue c{scene.walk.hue}" if i >= 4 else ""
        yield Mark(f"address.{i}.what", (ADDRESS, y), f"text s12{loud}", what)
        yield Mark(f"address.{i}.how", (ADDRESS + 222, y), "text mono s11 soft", how)
        yield Mark(f"address.{i}.number", (RIGHT, y), f"text mono s12 bold end{hue}", number)
    yield Mark("address.line", (ADDRESS, 156, RIGHT - ADDRESS, 1), "cell rule")


def _memory(scene: Scene) -> Iterator[Mark]:
    """The pool, and in which order it is read."""
    w = scene.walk
    yield Mark("memory.title", (LEFT, 235), "text s11 bold soft", "MEMORY")
    grid = pool_grid(w.num_blocks, MEMORY)
    discs, numbers = grid.width >= 44 and grid.height >= 40, grid.width >= 30 and grid.height >= 20
    what = "those read are framed" if numbers else "in those read, their logical block"
    what = "in a disc, the logical block; hatched slots are empty" if discs else what
    order = {physical: i for i, (_, _, physical) in enumerate(scene.span[: scene.read])}
    if grid.per_cell > 1:
        read = " → ".join(f"#{p}" for p in list(order)[-12:])
        text = f"{w.num_blocks:,} blocks are too many to draw; read last: {read or 'none'}"
        yield Mark("memory.many", (LEFT, 268), "text s12", text)
        return
    yield Mark("memory.what", (LEFT + 66, 235), "text s11 soft", f"blocks in the order of their addresses; {what}")
    for block in range(w.num_blocks):
        x, y, bw, bh = grid.place(block)
        i = order.get(block)
        now = i is not None and i == min(scene.read, len(scene.span)) - 1
        hue = f"c{w.hue}"
        cls = "card null" if block == 0 else "card" if i is None else f"card owned {hue}{' mine' if now else ''}"
        tiny = "" if grid.tier == "detail" else " tiny"
        tip = f"Block #{block}" if i is None else _tip(scene, i)
        yield Mark(f"block.{block}", (x, y, bw, bh), f"{cls}{tiny} askable", tip=tip)
        if numbers:
            bold = "bold" if i is not None else "soft"
            yield Mark(f"block.{block}.n", (x + 6, y + 14), f"text mono s10 {bold}", f"#{block}")
        elif i is not None and bw >= 12:
            yield Mark(f"block.{block}.n", (x + bw / 2, y + bh / 2 + 3), "text mono s8 bold mid", str(scene.span[i][1]))
        if i is not None and discs:
            yield Mark(f"block.{block}.disc", (x + bw - 26, y + 4, 22, 16), f"card disc {hue}")
            yield Mark(f"block.{block}.order", (x + bw - 15, y + 16), "text s10 bold mid on", str(scene.span[i][1]))
            yield from _slots(scene, f"block.{block}", scene.span[i][1], (x + 6, y + bh - 18, bw - 12, 11), now)
        if scene.guess == block:
            yield Mark("guess", (x - 3, y - 3, bw + 6, bh + 6), "over guess")


def _timeline(scene: Scene) -> Iterator[Mark]:
    """Each program on its SM, when it ran; for recordings that hold spans and no numbers."""
    w = scene.walk
    caption = "a recording of which blocks were read, and when: it holds no K, no scores and no addresses"
    yield Mark("spans.what", (ADDRESS, 90), "text s11 soft", fitted(caption, RIGHT - ADDRESS, "s11"))
    timed = [(i, clock) for i, clock in enumerate(w.clocks) if clock is not None]
    y = SOFTMAX_TOP
    yield Mark("sm.title", (LEFT, y), "text s11 bold soft", "PROGRAMS ON THE GPU")
    if not timed:
        yield Mark("sm.none", (LEFT, y + 24), "text s12 soft", "No GPU ran them: no times, no processors.")
        return
    sms = sorted({clock[0] for _, clock in timed})
    end = max(clock[2] for _, clock in timed) or 1
    what = f"each row one of {len(sms)} SMs, from the first start to {end:,} ns"
    yield Mark("sm.what", (LEFT + 162, y), "text s11 soft", what)
    pitch = min(12.0, (SIZE[1] - y - 34) / len(sms))
    for i, (sm, start, stop) in timed:
        top = y + 14 + sms.index(sm) * pitch
        left, wide = LEFT + 40 + 872 * start / end, max(1.0, 872 * (stop - start) / end)
        mine = i == scene.head
        cls = f"cell sharp c{w.hue}" if mine else "cell sharp ghost"
        tip = f"{w.programs[i]}: SM {sm}, {start:,} to {stop:,} ns"
        yield Mark(f"sm.{i}", (left, top, wide, max(0.6, pitch - (1 if pitch > 3 else 0.2))), cls, tip=tip)
        if mine:
            yield Mark("sm.mine", (LEFT + 36, top + pitch / 2 + 3.5), "text mono s10 bold end", f"SM {sm}")


def _iterations(scene: Scene) -> Iterator[Mark]:
    """What the kernel had after each of them."""
    w, y = scene.walk, SOFTMAX_TOP
    yield from _dialects(scene) if len(w.diaries) > 1 else _softmax(scene)
    first, last = max(0, len(scene.rows) - MOST_ROWS), len(scene.rows) - 1
    for place, i in enumerate(range(first, len(scene.rows))):
        top, bold = y + 40 + place * 22, " bold" if i == last else ""
        if i == last:
            yield Mark("softmax.now", (LEFT - 8, top - 15, RIGHT - LEFT + 16, 22), f"card owned c{w.hue}")
        yield Mark(f"softmax.{i}.i", (LEFT, top), f"text mono s11{bold}", f"i={i}")
        yield from (_compared if len(w.diaries) > 1 else _reckoned)(scene, i, top, bold)
    waiting = len(w.rows[scene.head]) - len(scene.rows)
    if waiting and (w.block_size < w.tile or not scene.read):  # else the next block brings it
        text = f"the next row comes when its {w.tile} tokens are read" if scene.read else "nothing yet"
        yield Mark("softmax.wait", (LEFT, y + 40 + (last + 1 - first) * 22), "text s11 soft", text)


def _softmax(scene: Scene) -> Iterator[Mark]:
    """Around the rows of :func:`_reckoned`."""
    w, y = scene.walk, SOFTMAX_TOP
    yield Mark("softmax.title", (LEFT, y), "text s11 bold soft", "ONLINE SOFTMAX")
    whose = "torch's numbers, as the kernel keeps its own in registers"
    whose = "m and l as the WGSL kernel wrote them down, the rest is torch's" if w.diaries else whose
    what = f"{whose}; both outputs are the same to within {_small(w.difference)}"
    yield Mark("softmax.what", (LEFT + 132, y), "text s11 soft", what)
    done, size = scene.num_rows == len(w.rows[scene.head]), len(w.rows[0][0][4])
    output = f"output{'' if done else ' so far'} (÷ l): {min(OUTPUT, size)} of {size} numbers"
    for x, text in (*COLUMNS, (664.0, output)):
        yield Mark(f"softmax.{'output' if text == output else text}", (x, y + 20), "text s10 soft", text)
    largest_number = _largest_number(scene)
    scale = f"full height: over {largest_number / 2:.2g}, each step lower half of that; below the middle: negative"
    yield Mark("softmax.scale", (RIGHT, y + 20 + 130), "text s10 soft end", scale)


def _reckoned(scene: Scene, i: int, top: float, bold: str) -> Iterator[Mark]:
    scores, largest, total, rescale, output = scene.rows[i]
    most = f"{max(scores):.3f} ({plural(len(scores), 'score')})"
    values = (most, f"{largest:.3f}", "–" if rescale is None else f"{rescale:.3f}", f"{total:.3f}")
    for (x, text), value in zip(COLUMNS, values, strict=True):
        yield Mark(f"softmax.{i}.{text}", (x, top), f"text mono s11{bold}", value)
    yield from _output(f"softmax.{i}", output, _largest_number(scene), (664.0, top - 11), scene.walk.hue)


def _largest_number(scene: Scene) -> float:
    """Of the output, in all rows of this head."""
    return max((abs(v) for row in scene.walk.rows[scene.head] for v in row[4][:OUTPUT]), default=0.0) or 1.0


def written(scene: Scene, i: int) -> list[tuple[str, list[str]]]:
    """What each dialect wrote down in iteration ``i``: block, byte of K, running maximum, running sum. Only where there
    are two."""
    if len(scene.walk.diaries) < 2:
        return []
    lines = [(diary.dialect, diary.lines[scene.head][i]) for diary in scene.walk.diaries]
    return [(name, [f"#{block}", f"{at * scene.walk.element:,}", f"{largest:.4f}", f"{total:.4f}"])
            for name, (block, at, largest, total) in lines]  # fmt: skip


def _dialects(scene: Scene) -> Iterator[Mark]:
    """Around the rows of :func:`_compared`."""
    w, y = scene.walk, SOFTMAX_TOP
    yield Mark("softmax.title", (LEFT, y), "text s11 bold soft", "ONE KERNEL, TWO DIALECTS")
    who = " and ".join(f"{d.dialect} ({d.where})" for d in w.diaries)
    ways = (f"what {who} wrote down after each block", who)
    yield Mark("softmax.what", (LEFT + 186, y), "text s11 soft", fitted(ways, RIGHT - LEFT - 186, "s11"))
    for i, x in enumerate((DIALECTS[1][0], VERDICTS[0])):
        yield Mark(f"softmax.line.{i}", (x - 12, y + 10, 0.8, 126), "cell ghost")
    for diary, xs in zip(w.diaries, DIALECTS, strict=True):
        for x, name in zip(xs, ("block", "from byte", "running max m", "sum l"), strict=True):
            text, cls = (f"{diary.dialect} {name}", "bold") if name == "block" else (name, "soft")
            yield Mark(f"softmax.{diary.dialect}.{name}", (x, y + 20), f"text s10 {cls}", text)
    for x, text in zip(VERDICTS, ("block, byte", "m and l differ by"), strict=True):
        yield Mark(f"softmax.{text}", (x, y + 20), "text s10 soft", text)
    ours, theirs = (diary.output[scene.head] for diary in w.diaries)
    text = "The outputs are compared when all blocks are read."
    if scene.num_rows == len(w.rows[scene.head]):
        text = f"Both outputs of query head {scene.head}, {len(ours)} numbers each, are the same to within "
        text += f"{_small(float((ours - theirs).abs().max()))}."
    yield Mark("softmax.outputs", (LEFT, y + 150), "text s11", text)


def _compared(scene: Scene, i: int, top: float, bold: str) -> Iterator[Mark]:
    for xs, (dialect, cells) in zip(DIALECTS, written(scene, i), strict=True):
        for part, (x, text) in enumerate(zip(xs, cells, strict=True)):
            yield Mark(f"softmax.{i}.{dialect}.{part}", (x, top), f"text mono s11{bold}", text)
    ours, theirs = (diary.lines[scene.head][i] for diary in scene.walk.diaries)
    same = ours[:2] == theirs[:2]
    text = "equal" if same else "not equal"
    yield Mark(f"softmax.{i}.same", (VERDICTS[0], top), f"text s11{bold}{'' if same else ' alarm'}", text)
    far = max(abs(a - b) for a, b in zip(ours[2:], theirs[2:], strict=True))
    rounding = far <= ROUNDING * max(1.0, *map(abs, ours[2:]))
    text = _small(far) if rounding else f"{_small(far)}: not rounding"
    yield Mark(f"softmax.{i}.far", (VERDICTS[1], top), f"text mono s11{bold}{'' if rounding else ' alarm'}", text)


def _small(number: float) -> str:
    """A difference of 1.04e-07 as 0.0000001: nobody has to know what e-07 means."""
    return "0" if number == 0 else f"{number:.{min(12, max(1, -math.floor(math.log10(number))))}f}"


def _output(id: str, output: Sequence[float], largest: float, at: tuple[float, float], hue: int) -> Iterator[Mark]:
    """The first numbers of the weighted mean of V, up from the middle or down: five heights, each twice the one before,
    because a few numbers are far larger than the others. ``largest``: in all rows of this head."""
    x, middle = at[0], at[1] + 8
    yield Mark(f"{id}.zero", (x, middle - 0.4, 11.2 * min(OUTPUT, len(output)) - 1.8, 0.8), "cell sharp ghost")
    for d, value in enumerate(output[:OUTPUT]):
        level = 4 - int(min(4, math.log2(largest / abs(value)))) if value else 0
        high = 1.6 * (level + 1)
        place = (x + d * 11.2, middle - high if value >= 0 else middle, 9.4, high)
        yield Mark(f"{id}.o{d}", place, f"cell sharp c{hue}")
