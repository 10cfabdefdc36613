"""The fragmentation lab: four strips of the same slots, and what share of each held tokens over time.

``marks(scene)`` is a pure function of the four strips at one moment; ``chart(shares, …)`` of the whole run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pagedlab.viz.kit import labels
from pagedlab.viz.kit.areas import Area
from pagedlab.viz.kit.chips import chip
from pagedlab.viz.kit.flow import Flow, key
from pagedlab.viz.kit.head import LEFT, RIGHT, top_line
from pagedlab.viz.kit.marks import Mark
from pagedlab.viz.kit.slots import outlines
from pagedlab.viz.kit.strip import Strip
from pagedlab.viz.kit.table import row
from pagedlab.viz.kit.text import fitted, measure
from pagedlab.viz.strips import words
from pagedlab.viz.strips.run import KINDS, Moment, Span, StripState

SIZE = (960.0, 524.0)
STRIP_WIDTH = 660.0
COLUMNS = tuple(732.0 + 51 * i for i in range(5))  # right edges
TOP, PITCH = 74.0, 64.0  # of the four strips
SLOT_TOP, SLOT_HEIGHT = 24.0, 20.0
# The chart, which is the scrubber too.
CHART_LEFT, CHART_RIGHT = 62.0, 684.0
SHARES = (366.0, 445.0)  # top and bottom
COUNTS = (467.0, 503.0)
SHORT_IDS = {"power_of_two": "two"}  # of the many slots: a step's message is to be small
STRIP_ENDS = (LEFT, LEFT + STRIP_WIDTH)
_HEADS = (700.0, 59.0, 260.0, 14.0)
AREAS = (
    Area((0, 0, 960, 46)),
    Area((0, 46, 696, 24)),
    Area((696, 46, 264, 12), "omit"),
    *(
        Area(box, kind, STRIP_ENDS, heads)
        for y in (TOP + i * PITCH for i in range(len(KINDS)))
        for box, kind, heads in (
            ((0, y - 4, 696, SLOT_TOP + 2), "flow", ()),
            ((0, y + SLOT_TOP - 2, 696, PITCH - SLOT_TOP - 2), "fold", ()),
            ((696, y, 264, 44), "table", (_HEADS,)),
            ((696, y + 44, 264, 16), "flow", ()),
        )
    ),
    Area((0, 340, 960, 18)),
    Area((0, 358, 690, 166), "chart", (CHART_LEFT, CHART_RIGHT)),
    Area((690, 358, 270, 166), "whole"),
)


@dataclass
class Scene:
    """What one picture depends on. ``badge``: what produced it; ``hues``: of each request."""

    strips: dict[str, StripState]
    moment: Moment
    selected: str
    position: int
    num_moments: int
    badge: str
    live: bool
    num_steps: int  # of the longest run
    asking: bool = False  # is it to be predicted where the next one goes?
    guess: int | None = None  # the slot that the learner pointed at

    def __post_init__(self) -> None:
        self.hues = labels.hues(next(iter(self.strips.values())).state.requests)

    @property
    def strip(self) -> StripState:
        return self.strips[self.selected]

    def hue(self, request_id: str) -> str:
        return f"c{self.hues[request_id]}"


def title(scene: Scene) -> str:
    """The picture in one line, for a screen reader and as the static picture's name."""
    return f"Fragmentation, {words.when(scene.moment)}. {words.name(scene.strip)}: {words.headline(scene.strip)}"


def marks(scene: Scene) -> list[Mark]:
    """Everything but the chart."""
    return [*_header(scene), *_legend(scene), *_strips(scene), *_columns(scene)]


def _header(scene: Scene) -> Iterator[Mark]:
    yield from top_line(words.headlines(scene.strip), scene.badge, scene.live)
    yield Mark("when", (RIGHT, 352), "text s11 bold end", words.when(scene.moment, scene.num_steps))


def _legend(scene: Scene) -> Iterator[Mark]:
    yield from key((
        ("legend.token", "cell c0", "token", 13),
        ("legend.reserved", "cell hatched c0", "held, to come", 13),
        ("legend.internal", "cell hatched never c0", "held, never used", 26),  # as in the strips: never slot by slot
        ("legend.free", "card free tiny", "free", 13),
        ("legend.lost", "card lost tiny", "lost: enough are free, but no hole is long enough", 13),
    ), (LEFT, 63))  # fmt: skip


def _columns(scene: Scene) -> Iterator[Mark]:
    for x, text, (_, tip) in zip(COLUMNS, words.COLUMNS, words.table(scene.strip), strict=True):
        yield Mark(f"column.{text}", (x, 67), "text s10 soft end", text, tip=tip)
    for text, (left, right) in zip(words.GROUPS, ((745, COLUMNS[3]), (COLUMNS[4] - 32, COLUMNS[4])), strict=True):
        yield Mark(f"group.{text}", ((left + right) / 2, 54), "text s9 soft mid", text)
        yield Mark(f"group.{text}.line", (left, 56.5, right - left, 0.8), "cell rule")


def _strips(scene: Scene) -> Iterator[Mark]:
    for i, kind in enumerate(KINDS):
        strip, y, chosen = scene.strips[kind], TOP + i * PITCH, kind == scene.selected
        name = words.name(strip)
        w = measure(name, "s12 bold") + 20
        yield from chip(kind, (LEFT, y, w, 20), name, chosen, tip=f"{name}: {words.headline(strip)}", down=14)
        queue = words.waiting(strip)
        room = STRIP_WIDTH - w - 24 - measure(queue, "s11")
        text, full = fitted(words.wordings(strip), room, "s11"), words.story(strip)
        yield Mark(f"{kind}.story", (LEFT + w + 10, y + 14), "text s11", text, tip=full if text != full else "")
        yield Mark(f"{kind}.queue", (LEFT + STRIP_WIDTH, y + 14), "text s11 soft end", queue)
        yield from _aside(scene, strip, y + SLOT_TOP + SLOT_HEIGHT + 13)
        yield from _slots(scene, strip, y + SLOT_TOP)
        yield from _brackets(scene, strip, y + SLOT_TOP + SLOT_HEIGHT)
        for j, (x, (number, _)) in enumerate(zip(COLUMNS, words.table(strip), strict=True)):
            loud = "bold" if j == 1 or chosen else ""
            alarm = " alarm" if j == 4 and number != "0" else ""
            yield Mark(f"{kind}.n{j}", (x, y + SLOT_TOP + 15), f"text mono s12 end {loud}{alarm}".rstrip(), number)


def _aside(scene: Scene, strip: StripState, y: float) -> Iterator[Mark]:
    """Under the numbers: what the one who waits needs; else, of blocks, how to read their names."""
    room = RIGHT - LEFT - STRIP_WIDTH - 12
    if needs := words.need(strip):
        cls = "alarm" if strip.wait and strip.wait.scattered else "soft"
        yield Mark(f"{strip.kind}.need", (RIGHT, y), f"text s10 {cls} end", fitted(needs, room, "s10"))
    elif strip.paged and (named := _named(strip)):
        number, (owner, logical) = next(reversed(named.items()))
        caption = f"{owner}{logical} at #{number}: {owner}'s logical block {logical} lies there"
        yield Mark("paged.named", (RIGHT, y), "text s10 soft end", fitted(caption, room, "s10"))


def _named(strip: StripState) -> dict[int, tuple[str, int]]:
    """The blocks under which it has to be said whose logical block they are, as far as there is room: those of requests
    whose blocks do not stand side by side in their order."""
    room = STRIP_WIDTH * strip.block_size / strip.num_slots / 2 - 1
    return {
        block: (owner, i)
        for owner, table in strip.state.tables.items()
        if any(b + 1 != c for b, c in zip(table, table[1:], strict=False))
        for i, block in enumerate(table)
        if max(measure(f"#{block}", "s8 mono"), measure(f"{owner}{i}", "s8 mono") + 4) <= room
    }


def _slots(scene: Scene, strip: StripState, y: float) -> Iterator[Mark]:
    """Slot by slot where there is room for it, else a rectangle for each run of equal ones."""
    pitch = STRIP_WIDTH / strip.num_slots
    gap = 1.0 if pitch >= 5 else 0.0
    lost = bool(strip.wait and strip.wait.scattered)
    writers = {span.owner for span in strip.spans if span.what == "token"}
    for span in strip.spans:
        cls = _class_of(scene, span, lost)
        came = span.what == "reserved" and span.owner not in writers and gap and pitch >= 9  # its letter goes there
        lump = not gap or span.what == "internal"  # nobody will ever count what is never used slot by slot
        for slot in (span.start,) if lump else range(span.start, span.end):
            w = pitch * span.length - gap if lump else pitch - gap
            id = slot_id(strip.kind, slot)
            ask = strip.kind == scene.selected and scene.asking and span.what == "free" and gap
            tip = f"slot {slot}" if ask else ""
            if slot == span.start:
                tip = tip or words.span_tip(strip, span)
            more = " askable" if ask else " named" if came and slot == span.start else ""
            yield Mark(id, (LEFT + slot * pitch, y, w, SLOT_HEIGHT), cls + more, tip=tip)
            if ask and slot == scene.guess:
                yield Mark("guess", (LEFT + slot * pitch - 2, y - 2, w + 4, SLOT_HEIGHT + 4), "over guess")
        if span.what == "token" and pitch * span.length >= 10:
            at = (LEFT + span.start * pitch + min(pitch - gap if gap else 20.0, pitch * span.length) / 2, y + 14)
            yield Mark(f"{strip.kind}.who.{span.start}", at, "text s10 bold mid on", span.owner)
        elif came:
            at = (LEFT + span.start * pitch + (pitch - gap) / 2, y + 14)
            hue = scene.hue(span.owner)
            yield Mark(f"{strip.kind}.who.{span.start}", at, f"text s10 bold mid hue {hue}", span.owner)
    held = {slot for span in strip.spans if span.what == "token" for slot in range(span.start, span.end)}
    new = [slot for slot in strip.new_slots if slot in held]  # who has just finished has left
    if gap and new:
        size = (pitch - gap, SLOT_HEIGHT)
        yield from outlines(f"{strip.kind}.new", new, strip.num_slots, (LEFT, y), size, (gap, 0), "over sharp")
    if strip.paged and pitch * strip.block_size >= 6:
        for block in range(strip.num_slots // strip.block_size + 1):
            x = LEFT + block * strip.block_size * pitch - gap / 2
            yield Mark(f"paged.edge.{block}", (x - 0.5, y - 2, 1.0, SLOT_HEIGHT + 4), "cell rule")


def slot_id(kind: str, slot: int) -> str:
    return f"slot.{slot}.{SHORT_IDS.get(kind, kind)}"


def _class_of(scene: Scene, span: Span, lost: bool) -> str:
    if span.what == "free":
        return "card lost tiny" if lost else "card free tiny"
    hue = scene.hue(span.owner)
    return {"token": f"cell {hue}", "reserved": f"cell hatched {hue}", "internal": f"cell hatched never {hue}"}[
        span.what
    ]


def _brackets(scene: Scene, strip: StripState, y: float) -> Iterator[Mark]:
    """Under the strip: what is locked and never used, and how long each hole is. In blocks: their numbers, and whose
    logical block each one is."""
    pitch = STRIP_WIDTH / strip.num_slots
    if strip.paged:
        size = strip.block_size * pitch
        named = _named(strip)
        for number in range(1, strip.num_slots // strip.block_size + 1) if size >= 20 else ():
            x = LEFT + (number - 0.5) * size
            side = "end" if number in named else "mid"
            yield Mark(f"paged.number.{number}", (x, y + 12), f"text mono s8 soft {side}", f"#{number}")
            if number in named:
                owner, i = named[number]
                cls = f"text mono s8 bold hue {scene.hue(owner)}"
                yield Mark(f"paged.own.{number}", (x + 4, y + 12), cls, f"{owner}{i}")
        return
    lost = bool(strip.wait and strip.wait.scattered)
    for span in strip.spans:
        if span.what not in ("internal", "free"):
            continue
        x, w = LEFT + span.start * pitch, span.length * pitch - 1
        choices = (
            (f"{span.length} never", str(span.length))
            if span.what == "internal"
            else (f"{span.length} free", str(span.length))
        )
        text = next((t for t in choices if measure(t, "s9") <= w), "")
        if not text:
            continue
        alarm = "alarm" if lost and span.what == "free" else "soft"
        yield Mark(f"{strip.kind}.line.{span.start}", (x, y + 3, w, 1.2), f"cell sharp rule {alarm}")
        yield Mark(f"{strip.kind}.length.{span.start}", (x + w / 2, y + 13), f"text s9 mid {alarm}", text)


# ------------------------------------------------------------------------------------------------------- the chart


def strip(num_moments: int) -> Strip:
    """Where the chart lies, a column for each moment."""
    return Strip(CHART_LEFT, SHARES[0], CHART_RIGHT - CHART_LEFT, COUNTS[1] - SHARES[0], max(1, num_moments))


def chart(
    shares: dict[str, Sequence[float]],
    counts: dict[str, Sequence[int]],
    means: dict[str, float],
    steps: dict[str, int],
    starts: Sequence[int],
    time: Strip,
    selected: str,
) -> list[Mark]:
    """Moment by moment until a run is over: the share of slots that hold a token (0 to 1), and how many requests run at
    once. ``means``: of the shares, over steps; ``steps``: how many steps each run took; ``starts``: the column in which
    each step begins."""
    titles = Flow(LEFT, 352).text("chart.title", "SHARE OF MEMORY THAT HOLDS TOKENS", "s11 bold soft", 14)
    titles.text("count.title.at", "below:", "s11 soft", 6).text("count.title", "REQUESTS AT ONCE", "s11 bold soft", 14)
    out = [*_axis(starts, time), *titles.text("chart.pale", "pale: still to come", "s11 soft")]
    most = max([1, *(n for of in counts.values() for n in of)])
    scales = (("chart", SHARES, 1.0, ("0 %", "50 %", "100 %")), ("count", COUNTS, most, ("0", str(most))))
    for id, (top, bottom), _, ticks in scales:
        for i, text in enumerate(ticks):
            y = bottom - (bottom - top) * i / (len(ticks) - 1)
            out.append(Mark(f"{id}.grid.{i}", (CHART_LEFT, y - 0.5, CHART_RIGHT - CHART_LEFT, 1), "card track"))
            out.append(Mark(f"{id}.tick.{i}", (CHART_LEFT - 6, y + 3.5), "text s9 soft end", text))
    for id, (top, bottom), largest, values in (("chart", SHARES, 1.0, shares), ("count", COUNTS, most, counts)):
        order = sorted(KINDS, key=lambda kind: kind == selected)  # the chosen one in front
        aside = min(1.3, (bottom - top) / largest / 8)  # never as much as half a request
        for kind in order:
            beside = _beside(values, kind, order[::-1])
            heights = [bottom - (bottom - top) * v / largest for v in values[kind]]
            path = _steps([y - aside * n for y, n in zip(heights, beside, strict=True)], time)
            cls = f"path line {kind.replace('_', '-')}" + (" chosen" if kind == selected else "")
            out.append(Mark(f"{id}.line.{kind}", (), cls, path))
    out += _key(means, counts, steps, selected)
    return out


def _key(
    means: dict[str, float], counts: dict[str, Sequence[int]], steps: dict[str, int], selected: str
) -> Iterator[Mark]:
    """Which line is whose, and what each run comes to. In the strips' order."""
    columns = {"mean": RIGHT - 86, "most": RIGHT - 42, "steps": RIGHT}
    y = SHARES[0] + 9
    yield Mark("key.title", (CHART_RIGHT + 16, y + 11), "text s9 soft", "each run to its end")
    yield from row("key", y, {"mean": columns["mean"], "most": columns["most"]}, ("mean", "most"), "s9 soft end")
    below = {"mean.of": columns["mean"], "most.of": columns["most"], "steps": columns["steps"]}
    yield from row("key", y + 11, below, ("share", "at once", "steps"), "s9 soft end")
    for i, kind in enumerate(KINDS):
        y, loud = SHARES[0] + 40 + i * 19, "bold" if kind == selected else "soft"
        chosen = " chosen" if kind == selected else ""
        path = f"M{CHART_RIGHT + 16:g} {y - 4:g}h28"
        yield Mark(f"key.{kind}", (), f"path line {kind.replace('_', '-')}{chosen}", path)
        yield Mark(f"key.{kind}.name", (CHART_RIGHT + 52, y), f"text s11 {loud}", words.SHORT[kind])
        values = (f"{means[kind]:.0%}", max(counts[kind], default=0), steps[kind])
        yield from row(f"key.{kind}", y, columns, values, f"mono s11 end {loud}")


def _axis(starts: Sequence[int], time: Strip) -> Iterator[Mark]:
    """The number of a step where it begins: of each, or of every fifth, tenth …"""
    each = next((n for n in (1, 5, 10, 50, 100, 500, 1000, 5000) if len(starts) <= 10 * n), 20_000)
    for step, column in enumerate(starts, start=1):
        x = time.x_of(column)
        if step == 1 or (step % each == 0 and 42 < x - CHART_LEFT < CHART_RIGHT - CHART_LEFT - 20):
            yield Mark(f"axis.{step}", (x, COUNTS[1] + 15), "text s9 soft", f"step {step}" if step == 1 else str(step))
            yield Mark(f"axis.{step}.tick", (x - 0.4, COUNTS[1], 0.8, 5), "cell rule")


def _beside(values: dict[str, Sequence[float]], kind: str, order: list[str]) -> list[int]:
    """Where runs are alike for a while, their lines lie side by side, in this order from below: how many are under this
    one. The chosen run comes first, so it is drawn exactly."""
    under = [values[other] for other in order[: order.index(kind)]]
    return [sum(value in of[i : i + 1] for of in under) for i, value in enumerate(values[kind])]


def _steps(heights: Sequence[float], time: Strip) -> str:
    """A line of steps: each height holds for one column, that of the moment it was reached in."""
    path, before = "", None
    for i, y in enumerate(heights):
        if before is None:
            path = f"M{CHART_LEFT:g} {y:.1f}"
        elif y != before:
            path += f"H{time.x_of(i):.1f}V{y:.1f}"
        before = y
    return path + f"H{time.x_of(len(heights)):.1f}"
