"""Where the marks of two runs side by side lie, and what they say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pagedlab.viz.kit import labels
from pagedlab.viz.kit.areas import Area
from pagedlab.viz.kit.badge import badge_marks, badge_width
from pagedlab.viz.kit.grid import Grid, pool_grid
from pagedlab.viz.kit.head import LEFT, RIGHT
from pagedlab.viz.kit.labels import listed, ordinal, plural
from pagedlab.viz.kit.marks import Mark
from pagedlab.viz.kit.style import NUM_HUES
from pagedlab.viz.kit.text import as_many, fitted, measure, width

FIELDS = ("scheduled", "new", "resumed", "preempted", "tables", "free", "finished", "running", "waiting", "step")

SIZE = (960.0, 510.0)
PANEL = 392.0  # width of each side
SIDES = (RIGHT - 2 * PANEL - 20, RIGHT - PANEL)  # the two columns; to their left is what they have in common
POOL = (100.0, 168.0)  # top and height
ROWS = (302.0, 15.0)  # the first field's baseline, and the distance of the next
STRIP = (474.0, 26.0)
AREAS = (
    Area((0, 0, 960, 68)),
    *(
        Area((x - 12, y, PANEL + 16, height), kind)
        for x in SIDES
        for y, height, kind in ((68, POOL[0] - 70, "flow"), (POOL[0] - 2, 176, "whole"))
    ),
    Area((0, 274, 960, 16), "omit"),
    Area((0, 290, 960, 162), "table", heads=tuple((x - 2, 76.0, 140.0, 14.0) for x in SIDES)),
    Area((0, 68, SIDES[0] - 12, 206), "whole"),
    Area((0, 452, 960, 14)),
    Area((0, 466, 960, 44), "chart", (LEFT, RIGHT)),
)
TOLD_ALL = 48  # in a larger pool only the first of the free queue say their turn
FIRST_TURNS = ("next", *(ordinal(i) for i in range(2, 9)))


@dataclass(frozen=True)
class Scene:
    """One step of both. Of each side: ``now`` (its dict; None where it has no such step), ``before`` and ``held`` (the
    block tables before and after its ``schedule``)."""

    header: dict[str, Any]
    position: int
    names: tuple[str, str]
    badges: tuple[str, str]
    hues: dict[str, int]
    now: Sequence[dict[str, Any] | None]
    before: Sequence[dict[str, list[int]]]
    held: Sequence[dict[str, list[int]]]
    different: Sequence[str]
    counts: dict[str, int]
    total: str  # of the steps that differ, in words; empty where there are none
    error: str
    asking: bool = False  # is it to be predicted which block is handed out next?
    guess: int | None = None


def tables(steps: Sequence[dict[str, Any]]) -> list[dict[str, list[int]]]:
    """Every running request's table after each step's ``schedule``; who was not scheduled keeps what it had."""
    found: list[dict[str, list[int]]] = []
    held: dict[str, list[int]] = {}
    for step in steps:
        held = {r: table for r, table in held.items() if r not in step["preempted"]} | step["tables"]
        found.append(dict(held))
        held = {r: table for r, table in held.items() if r in step["running"]}
    return found


def hues(
    requests: Sequence[str], steps: Sequence[dict[str, Any]], held: Sequence[dict[str, list[int]]]
) -> dict[str, int]:
    """A colour number for each request. Whoever comes takes the one that nobody has had for longest: so a colour does
    not go from one who is done to another in the next step."""
    found, usual = {}, labels.hues(requests)
    last = dict.fromkeys(range(NUM_HUES), -1)  # the step in which its last owner was done
    in_use: dict[str, int] = {}
    for i, (step, tables_now) in enumerate(zip(steps, held, strict=True)):
        for request_id in tables_now:
            if request_id not in found:
                free = [hue for hue in last if hue not in in_use.values()] or list(last)
                hue = min(free, key=lambda hue: (last[hue], hue != usual.get(request_id)))
                found[request_id] = in_use[request_id] = hue
        for request_id in step["finished"]:
            if request_id in in_use:
                last[in_use.pop(request_id)] = i
    return usual | found


def hits(scene: Scene, side: int, request_id: str) -> int:
    """How many tokens of one that is admitted were found in memory. A recording tells it of new ones only; of those
    that come back it follows from how many blocks they got and how many tokens were computed."""
    step = scene.now[side]
    if request_id in step["new"]:
        return step["new"][request_id]
    size, table = scene.header["block_size"], step["tables"].get(request_id, [])
    return max(0, len(table) - -(-step["scheduled"].get(request_id, 0) // size)) * size


def taken(scene: Scene, side: int) -> tuple[set[int], set[int]]:
    """The blocks that requests got in this step: those that had been free, and those that another one holds too."""
    step, before, held = scene.now[side], scene.before[side], scene.held[side]
    if step is None:
        return set(), set()
    got = {b for r, table in step["tables"].items() for b in table[len(before.get(r, ())) :]}
    others = {b for r, table in before.items() if r in held and r not in step["preempted"] for b in table}
    return got - others, got & others


# ------------------------------------------------------------------------------------------------------ the words


def verdict(scene: Scene) -> str:
    """Are the two the same in this step?"""
    if scene.position == 0:
        return "Before the first step: all blocks are free."
    if scene.now[1] is None:
        return f"{scene.names[1]} has stopped: {scene.error or 'it has no such step'}."
    if not scene.different:
        return f"The same in all {len(FIELDS)} fields."
    verb = "differs" if len(scene.different) == 1 else "differ"
    return f"{len(scene.different)} of {len(FIELDS)} fields {verb}: {listed(scene.different, 9)}."


def story(scene: Scene, brief: bool = False) -> str:
    """What the recorded side did in this step; ``brief``: without how many tokens were found."""
    step = scene.now[0]
    if step is None:
        return ""
    parts = []
    if step["new"]:
        num_hit = 0 if brief else sum(step["new"].values())
        found = f" with {plural(num_hit, 'token')} found in memory" if num_hit else ""
        parts.append(f"{listed(step['new'])} {'starts' if len(step['new']) == 1 else 'start'}{found}")
    if gone := step["preempted"]:
        are = "is preempted: its" if len(gone) == 1 else "are preempted: their"
        parts.append(f"{listed(gone)} {are} blocks go back")
    if step["resumed"]:
        num_hit = 0 if brief else sum(hits(scene, 0, r) for r in step["resumed"])
        found = f", {plural(num_hit, 'token')} found in memory" if num_hit else ""
        parts.append(f"{listed(step['resumed'])} {'comes' if len(step['resumed']) == 1 else 'come'} back{found}")
    new, shared = taken(scene, 0)
    tokens = sum(step["scheduled"].values())
    alone = len(step["scheduled"]) == 1
    run = f"{plural(len(step['scheduled']), 'request')} {'runs' if alone else 'run'} {plural(tokens, 'token')}"
    also = f" and {'shares' if alone else 'share'} {len(shared)}" if shared else ""
    grown = f" and {'takes' if alone else 'take'} {plural(len(new), 'block')}{also}"
    parts.append(run + (grown if new or shared else ", no block is taken") if tokens else "nobody runs")
    if step["finished"]:
        verb = "finishes" if len(step["finished"]) == 1 else "finish"
        parts.append(f"then {listed(step['finished'])} {verb}")
    return f"{scene.names[0]}: {'; '.join(parts)}."


def value(scene: Scene, side: int, field: str) -> str:
    """What one side says in one field."""
    items, between = items_of(scene, side, field)
    return between.join(items)


def items_of(scene: Scene, side: int, field: str) -> tuple[list[str], str]:
    """What one side says in one field: its items, and what stands between them."""
    step = scene.now[side]
    if step is None:
        return [f"stopped: {scene.error}" if side and scene.error else "–"], ""
    match field:
        case "scheduled":
            counts = [f"{r} ×{n}" for r, n in step["scheduled"].items()]
            return [*counts[:-1], f"{counts[-1]} tokens"] if counts else ["–"], ", "
        case "new" | "resumed":
            found = {r: hits(scene, side, r) for r in step[field]}
            return [f"{r} ({plural(n, 'token')} found)" if n else r for r, n in found.items()] or ["–"], ", "
        case "preempted":
            return _with_blocks(step[field], scene.before[side], "had"), "; "
        case "finished":
            return _with_blocks(step[field], scene.held[side], "then gives back"), "; "
        case "tables":
            return _tables(scene, side), ", "
        case "free":
            return [f"#{b}" for b in step["free"]] or ["none"], " → "
        case "step":
            where = "" if scene.badges[0].startswith("live") else "in the recording "
            return [f"{step['step'] + 1} ({where}{step['step']}: counted from 0)"], ""
    return list(step[field]) or ["–"], ", "


def _with_blocks(requests: Sequence[str], held: dict[str, list[int]], verb: str) -> list[str]:
    """Requests with their blocks, or with how many they are, or alone: what there is room for."""
    tables = {r: held.get(r, []) for r in requests}
    numbers = [f"{r}, {verb} {' '.join(f'#{b}' for b in t) or 'no block'}" for r, t in tables.items()]
    counts = [f"{r}, {verb} {plural(len(t), 'block')}" for r, t in tables.items()]
    fits = (items for items in (numbers, counts) if measure("; ".join(items), "s10 bold") <= PANEL)
    return next(fits, list(requests)) or ["–"]


def _shown(scene: Scene, side: int, field: str) -> str:
    """What there is room for. Where the two differ behind that: from there on."""
    items, between = items_of(scene, side, field)
    wrong = field in scene.different
    text = as_many(items, between, PANEL, f"s10{' bold' if wrong else ''}")
    if wrong and " … (" in text:
        other, _ = items_of(scene, 1 - side, field)
        pairs = enumerate(zip(items, other, strict=False))
        first = next((i for i, (a, b) in pairs if a != b), min(len(items), len(other)))
        if first >= text.count(between) and first:
            start = f"from place {first + 1} on: "
            rest = items[first:] or ["nothing"]
            text = start + as_many(rest, between, PANEL - measure(start, "s10 bold"), "s10 bold")
    return fitted(text, PANEL, f"s10{' bold' if wrong else ''}")


def _tables(scene: Scene, side: int) -> list[str]:
    """Where the two differ: from where on the first such table differs. Else what the step added."""
    mine, other = (scene.now[s] and scene.now[s]["tables"] for s in (side, 1 - side))
    if "tables" in scene.different and other is not None:
        for request_id in [*mine, *other]:
            table, theirs = mine.get(request_id), other.get(request_id)
            if table is None:
                return [f"{request_id}: no table"]
            if table != theirs:
                pairs = enumerate(zip(table, theirs or (), strict=False))
                start = next((i for i, (a, b) in pairs if a != b), min(len(table), len(theirs or ())))
                rest = " ".join(f"#{b}" for b in table[start:])
                return [f"{request_id}[{start}:]: {rest or 'ends here'}"]
    added = []
    for request_id, table in mine.items():
        had = scene.before[side].get(request_id, [])
        if len(table) > len(had):
            added.append(f"{request_id} + {' '.join(f'#{b}' for b in table[len(had) :])}")
    return added or [f"{plural(len(mine), 'table')}, none longer"]


# ---------------------------------------------------------------------------------------------------- the marks


def marks(scene: Scene) -> list[Mark]:
    return [*_head(scene), *_legend(scene), *_side(scene, 0), *_side(scene, 1), *_fields(scene), *_time(scene)]


def _head(scene: Scene) -> Iterator[Mark]:
    cls = "text s18 bold alarm" if scene.different else "text s18 bold"
    yield Mark("headline", (LEFT, 36), cls, fitted(verdict(scene), RIGHT - LEFT - 120, "s18 bold"))
    yield Mark("step", (RIGHT, 36), "text s12 end soft", f"step {scene.position}")
    sentence = fitted((story(scene), story(scene, brief=True)), RIGHT - LEFT, "s12")
    yield Mark("story", (LEFT, 58), "text s12", sentence)


def _legend(scene: Scene) -> Iterator[Mark]:
    """What the two have in common: the workload, and how to read a block."""
    header, x = scene.header, LEFT
    requests = header["requests"]
    came = sum(item.get("arrive", 0) < scene.position for item in requests)
    lines = [
        ("bold", "WORKLOAD"),
        ("", f"{came} of {len(requests)} came"),
        ("", f"{header['num_blocks']} blocks of {header['block_size']}"),
        ("", f"at most {header['max_num_seqs']} run"),
        ("", f"prefix cache {'on' if header['enable_caching'] else 'off'}"),
        ("", ""),
        ("bold", "A BLOCK"),
        ("", "a name: it holds it"),
        ("", "bar: got it now"),
        ("", "grey: it just ended"),
        ("", "next, 2nd …: free,"),
        ("", "in this order"),
        ("", "bold dashes: differs"),
    ]
    for i, (bold, text) in enumerate(lines):
        if text:
            yield Mark(f"legend.{i}", (x, POOL[0] + 9 + 12.6 * i), f"text s10 soft {bold}".rstrip(), text)


def _side(scene: Scene, side: int) -> Iterator[Mark]:
    x, (top, height) = SIDES[side], POOL
    badge = scene.badges[side]
    tip, cls = f"{scene.names[side]}: {badge}", "s11 soft"
    room = PANEL - badge_width(badge, cls) - 8
    yield Mark(f"{side}.name", (x, 87), "text s13 bold", fitted(scene.names[side], room, "s13 bold"))
    yield from badge_marks(badge, badge.startswith("live"), x + PANEL, 72, cls, id=f"{side}.badge", tip=tip)
    grid = pool_grid(scene.header["num_blocks"], (x, top, PANEL, height))
    mine, other = _blocks(scene, side), _blocks(scene, 1 - side)
    yield from (_many if grid.per_cell > 1 else _pool)(scene, side, grid, mine, other)


def can_point(num_blocks: int) -> bool:
    """Is each block a mark of its own?"""
    return pool_grid(num_blocks, (SIDES[0], POOL[0], PANEL, POOL[1])).per_cell == 1


def _blocks(scene: Scene, side: int) -> dict[int, tuple[str, ...] | str]:
    """What each block is: its owners, or its turn in the free queue."""
    step = scene.now[side]
    if step is None:
        return {}
    content: dict[int, Any] = {b: "next" if i == 0 else ordinal(i + 1) for i, b in enumerate(step["free"])}
    for request_id, table in scene.held[side].items():
        for block_id in dict.fromkeys(table):
            owners = content.get(block_id, ())
            content[block_id] = (*(owners if isinstance(owners, tuple) else ()), request_id)
    return content


def _pool(scene: Scene, side: int, grid: Grid, mine: dict, other: dict) -> Iterator[Mark]:
    """The blocks as they were when the step was scheduled; a dashed outline where the other side's is not so."""
    small, step = grid.tier == "small", scene.now[side]
    done = set(step["finished"]) if step else set()
    got = {}  # block -> who got it in this step
    for request_id, table in step["tables"].items() if step else ():
        got |= dict.fromkeys(table[len(scene.before[side].get(request_id, ())) :], request_id)
    for block_id in range(grid.count):
        x, y, w, h = grid.place(block_id)
        id, content = f"{side}.block.{block_id}", mine.get(block_id, "")
        owners = content if isinstance(content, tuple) else ()
        stays = [r for r in owners if r not in done]
        hue = f"c{scene.hues[(stays or owners)[0]]}" if owners else ""
        ends = bool(owners) and not stays
        kind = "lost" if ends else f"owned {hue}" if owners else "null" if block_id == 0 else "free"
        turn = "" if owners or (grid.count > TOLD_ALL and content not in FIRST_TURNS) else content
        status = f"held by {listed(owners)}" if owners else "null block" if block_id == 0 else "free"
        status += ", back in the queue after this step" if ends else ", got in this step" if block_id in got else ""
        tip = f"{scene.names[side]}, block #{block_id}: {status}"
        askable = " askable" if scene.asking and block_id else ""
        yield Mark(id, (x, y, w, h), f"card {kind} tiny{askable}", tip=tip)
        if scene.guess == block_id:
            yield Mark(f"{side}.guess", (x - 2, y - 2, w + 4, h + 4), "over guess")
        if not small:
            yield Mark(f"{id}.n", (x + 3, y + 10), "text mono s8 soft", str(block_id))
        elif block_id % grid.columns == 0:
            yield Mark(f"{id}.n", (x - 4, y + h / 2 + 3), "text mono s8 soft end", f"#{block_id}")
        if owners:
            if small and not ends:
                level = "level2" if block_id in got else "level1"
                yield Mark(f"{id}.full", (x + 1, y + 1, w - 2, h - 2), f"cell sharp {level} {hue}")
            elif block_id in got and not small:
                yield Mark(f"{id}.full", (x + 3, y + h - 7, w - 6, 4), f"cell sharp c{scene.hues[got[block_id]]}")
            size, px = ("s8", 8) if small else ("s11", 11) if len(owners) == 1 else ("s10", 10.5)
            more = f"+{len(owners) - 1}" if len(owners) > 1 else ""
            shown = (" ".join(owners), owners[0] + more)
            text = next((t for t in shown if width(t, px, bold=True) <= w - 2), "")
            if text and h >= 8:
                y_text = y + h / 2 + (3 if small else 4)
                looks = "soft" if ends else f"hue {hue}"
                yield Mark(f"{id}.who", (x + w / 2, y_text), f"text {size} bold mid {looks}", text)
        elif kind == "null" and not small:
            yield Mark(f"{id}.word", (x + w / 2, y + h / 2 + 5), "text s8 soft mid", "null")
        elif turn:
            bold = "bold" if turn == "next" else "soft"
            size, y_text = ("s8", y + h / 2 + 3) if small else ("s9", y + h / 2 + 7)
            yield Mark(f"{id}.turn", (x + w / 2, y_text), f"text {size} mid {bold}", fitted(turn, w + 4, "s8"))
        if content != other.get(block_id, ""):
            yield Mark(f"{id}.differs", (x - 1, y - 1, w + 2, h + 2), "over guess")


def _many(scene: Scene, side: int, grid: Grid, mine: dict, other: dict) -> Iterator[Mark]:
    """A pool of very many blocks: a cell stands for several, in the hue of the first that is held."""
    last = scene.header["num_blocks"] - 1
    for cell in range(grid.count):
        x, y, w, h = grid.place(cell)
        first, id = cell * grid.per_cell, f"{side}.cell.{cell}"
        blocks = range(first, min(first + grid.per_cell, last + 1))
        held = [mine[b] for b in blocks if isinstance(mine.get(b), tuple)]
        hue = f"c{scene.hues[held[0][0]]}" if held else ""
        tip = f"{scene.names[side]}, blocks #{first} to #{blocks[-1]}: {len(held)} of {len(blocks)} held"
        yield Mark(id, (x, y, w, h), f"card owned {hue} tiny" if held else "card free tiny", tip=tip)
        if held:
            yield Mark(f"{id}.full", (x, y, w * len(held) / len(blocks), h), f"cell sharp {hue}")
        if cell % grid.columns == 0:
            yield Mark(f"{id}.n", (x - 4, y + h / 2 + 3), "text mono s8 soft end", f"#{first}")
        if any(mine.get(b, "") != other.get(b, "") for b in blocks):
            yield Mark(f"{id}.differs", (x - 1, y - 1, w + 2, h + 2), "over guess")
    caption = f"{last + 1:,} blocks: each cell stands for {grid.per_cell}"
    yield Mark(f"{side}.coarse", (SIDES[side], POOL[0] + POOL[1] + 10), "text s9 soft", caption)


def _fields(scene: Scene) -> Iterator[Mark]:
    """Each field: in how many steps it differs, and what the two sides say in this one."""
    y, pitch = ROWS
    yield Mark("fields.head", (LEFT, y - 17), "text s10 bold soft", "FIELD")
    yield Mark("fields.count", (SIDES[0] - 10, y - 17), "text s10 soft end", "≠ in steps")
    for i, field in enumerate(FIELDS):
        at, wrong = y + pitch * i, field in scene.different
        count = scene.counts[field]
        cls = "text s10 bold alarm" if wrong else "text s10"
        yield Mark(f"field.{field}", (LEFT, at), cls, f"{field} ≠" if wrong else field)
        seen = "text mono s10 bold end" if count else "text mono s10 soft end"
        yield Mark(f"field.{field}.count", (SIDES[0] - 10, at), seen, str(count))
        for side in (0, 1) if scene.position else ():
            text = _shown(scene, side, field)
            looks = "text s10 bold alarm" if wrong else "text s10 soft" if text == "–" else "text s10"
            yield Mark(f"{side}.field.{field}", (SIDES[side], at), looks, text)


def _time(scene: Scene) -> Iterator[Mark]:
    y = STRIP[0] - 14
    yield Mark("strip.title", (LEFT, y), "text s11 bold soft", "TIME")
    what = "each column a step; where fields differ stands a bar, the taller the more of them"
    yield Mark("strip.what", (LEFT + 40, y), "text s11 soft", what)
    cls = "text s11 bold end" if scene.total else "text s11 soft end"
    yield Mark("strip.total", (RIGHT - 12, y), cls, scene.total or "no step differs")


def strip_marks(different: Sequence[Sequence[str]], columns: int) -> list[Mark]:
    """A column for each step, of so many that there is room for, as tall as it has fields that differ. Neighbours alike
    are one mark."""
    top, height = STRIP
    out = [Mark("time.track", (LEFT, top + height - 5, RIGHT - LEFT, 5), "card track")]
    w = (RIGHT - LEFT) / columns
    gap = 1.0 if w > 3 else 0.0
    first = 0
    for i in range(1, len(different) + 1):
        if gap == 0 and i < len(different) and len(different[i]) == len(different[first]):
            continue
        if different[first]:
            h = 5 + (height - 5) * len(different[first]) / len(FIELDS)
            place = (LEFT + first * w, top + height - h, (i - first) * w - gap, h)
            out.append(Mark(f"time.{first + 1}", place, "cell rule alarm"))
        first = i
    return out
