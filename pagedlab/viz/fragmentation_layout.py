"""The fragmentation lab: four strips of the same slots, and what share of each held tokens over time.

``marks(scene)`` is a pure function of the four strips at one moment; ``chart(shares, …)`` of the whole run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pagedlab.viz import fragmentation_words as words
from pagedlab.viz import labels
from pagedlab.viz.fragmentation_run import KINDS, Moment, Span, StripState
from pagedlab.viz.labels import fit, width
from pagedlab.viz.marks import Mark
from pagedlab.viz.slots import outlines

SIZE = (960.0, 524.0)
LEFT, RIGHT = 24.0, 936.0
STRIP_WIDTH = 660.0
COLUMNS = tuple(732.0 + 51 * i for i in range(5))  # right edges
TOP, PITCH = 74.0, 64.0  # of the four strips
SLOT_TOP, SLOT_HEIGHT = 24.0, 20.0
# The chart, which is the scrubber too.
CHART_LEFT, CHART_RIGHT = 62.0, 684.0
SHARES = (366.0, 448.0)  # top and bottom
COUNTS = (470.0, 510.0)


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
    badge = scene.badge
    w = width(badge, 11.5) + 30
    yield Mark("head.line", (LEFT, 37), "text s18 semi", fit(words.headline(scene.strip), RIGHT - LEFT - w, 18, bold=True))
    yield Mark("badge", (RIGHT - w, 21, w, 22), "card badge", tip="What produced this picture")
    yield Mark("badge.light", (RIGHT - w + 10, 28, 8, 8), "cell light" if scene.live else "cell still")
    yield Mark("badge.text", (RIGHT - w + 24, 36), "text soft", badge)
    yield Mark("when", (RIGHT, 352), "text s11 soft end", words.when(scene.moment))


def _legend(scene: Scene) -> Iterator[Mark]:
    x = LEFT
    for key, cls, text in (
        ("token", "cell sharp still", "token"),
        ("reserved", "cell sharp unwritten", "held, will be written"),
        ("internal", "cell sharp never", "held, never written"),
        ("free", "card free tiny", "free"),
        ("lost", "cell sharp lost", "free, but no use to the one who waits"),
    ):
        yield Mark(f"legend.{key}", (x, 53, 13, 10), cls)
        yield Mark(f"legend.{key}.t", (x + 18, 62), "text s10 soft", text)
        x += 18 + width(text, 10.5) + 16


def _columns(scene: Scene) -> Iterator[Mark]:
    for x, text, (_, tip) in zip(COLUMNS, words.COLUMNS, words.table(scene.strip), strict=True):
        yield Mark(f"column.{text}", (x, 62), "text s10 soft end", text, tip=tip)


def _strips(scene: Scene) -> Iterator[Mark]:
    for i, kind in enumerate(KINDS):
        strip, y, chosen = scene.strips[kind], TOP + i * PITCH, kind == scene.selected
        name = words.name(strip)
        w = width(name, 12, bold=True) + 20
        cls = "card chip plain chosen" if chosen else "card chip plain"
        yield Mark(f"chip.{kind}", (LEFT, y, w, 20), cls, tip=f"{name}: {words.headline(strip)}")
        yield Mark(f"chip-name.{kind}", (LEFT + w / 2, y + 14), "text s12 bold mid" + (" on" if chosen else ""), name)
        queue = words.waiting(strip)
        room = STRIP_WIDTH - w - 24 - width(queue, 11)
        yield Mark(f"{kind}.story", (LEFT + w + 10, y + 14), "text s11", fit(words.story(strip), room, 11))
        yield Mark(f"{kind}.queue", (LEFT + STRIP_WIDTH, y + 14), "text s11 soft end", queue)
        yield from _slots(scene, strip, y + SLOT_TOP)
        yield from _brackets(scene, strip, y + SLOT_TOP + SLOT_HEIGHT)
        for j, (x, (number, tip)) in enumerate(zip(COLUMNS, words.table(strip), strict=True)):
            loud = "bold" if j == 1 or chosen else ""
            alarm = " alarm" if j == 4 and number != "0" else ""
            yield Mark(f"{kind}.n{j}", (x, y + SLOT_TOP + 15), f"text mono s12 end {loud}{alarm}".rstrip(), number, tip)


def _slots(scene: Scene, strip: StripState, y: float) -> Iterator[Mark]:
    """Slot by slot where there is room for it, else a rectangle for each run of equal ones."""
    pitch = STRIP_WIDTH / strip.num_slots
    gap = 1.0 if pitch >= 5 else 0.0
    lost = bool(strip.wait and strip.wait.scattered)
    for span in strip.spans:
        cls = _class_of(scene, span, lost)
        pieces = range(span.start, span.end) if gap else (span.start,)
        for slot in pieces:
            w = pitch - gap if gap else pitch * span.length
            id = f"{strip.kind}.slot.{slot}" if gap else f"{strip.kind}.span.{slot}"
            tip = words.span_tip(strip, span) if slot == span.start else ""
            yield Mark(id, (LEFT + slot * pitch, y, w, SLOT_HEIGHT), cls, tip=tip)
        if span.what == "token" and pitch * span.length >= 10:
            at = (LEFT + span.start * pitch + min(pitch - gap if gap else 20.0, pitch * span.length) / 2, y + 14)
            yield Mark(f"{strip.kind}.who.{span.start}", at, "text s10 bold mid on", span.owner)
    new = strip.new_slots
    if gap and new:
        size = (pitch - gap, SLOT_HEIGHT)
        yield from outlines(f"{strip.kind}.new", new, strip.num_slots, (LEFT, y), size, (gap, 0), "over sharp")
    if strip.paged and pitch * strip.block_size >= 6:
        for block in range(strip.num_slots // strip.block_size + 1):
            x = LEFT + block * strip.block_size * pitch - gap / 2
            yield Mark(f"paged.edge.{block}", (x - 0.5, y - 2, 1.0, SLOT_HEIGHT + 4), "over edge")


def _class_of(scene: Scene, span: Span, lost: bool) -> str:
    if span.what == "free":
        return "cell sharp lost" if lost else "card free tiny"
    hue = scene.hue(span.owner)
    return {"token": f"cell sharp {hue}", "reserved": f"cell sharp hatched {hue}", "internal": f"cell sharp never {hue}"}[
        span.what
    ]


def _brackets(scene: Scene, strip: StripState, y: float) -> Iterator[Mark]:
    """Under the strip: what is locked and never used, and how long each hole is. In blocks: their numbers."""
    pitch = STRIP_WIDTH / strip.num_slots
    if strip.paged:
        size = strip.block_size * pitch
        for block in range(strip.num_slots // strip.block_size) if size >= 20 else ():
            at = (LEFT + block * size + size / 2, y + 12)
            yield Mark(f"paged.number.{block + 1}", at, "text mono s8 soft mid", f"#{block + 1}")
        return
    lost = bool(strip.wait and strip.wait.scattered)
    for span in strip.spans:
        if span.what not in ("internal", "free"):
            continue
        x, w = LEFT + span.start * pitch, span.length * pitch - 1
        choices = (
            (f"{span.length} never used", f"{span.length} never", str(span.length))
            if span.what == "internal"
            else (f"{span.length} free in a row", f"{span.length} free", str(span.length))
        )
        text = next((t for t in choices if width(t, 9.5) <= w), "")
        if not text:
            continue
        alarm = "alarm" if lost and span.what == "free" else "soft"
        yield Mark(f"{strip.kind}.line.{span.start}", (x, y + 3, w, 1.2), f"cell sharp rule {alarm}")
        yield Mark(f"{strip.kind}.length.{span.start}", (x + w / 2, y + 13), f"text s9 mid {alarm}", text)


# ------------------------------------------------------------------------------------------------------- the chart


def chart(shares: dict[str, Sequence[float]], counts: dict[str, Sequence[int]], selected: str) -> list[Mark]:
    """Over all moments: the share of slots that hold a token (0 to 1), and how many requests run at once."""
    out = [
        Mark("chart.title", (LEFT, 352), "text s11 bold soft", "SHARE OF MEMORY THAT HOLDS TOKENS"),
        Mark("count.title", (LEFT, 466), "text s11 bold soft", "REQUESTS AT ONCE"),
    ]
    most = max(1, *(max(of) for of in counts.values()))
    scales = (("chart", SHARES, 1.0, ("0 %", "50 %", "100 %")), ("count", COUNTS, most, ("0", str(most))))
    for id, (top, bottom), _, ticks in scales:
        for i, text in enumerate(ticks):
            y = bottom - (bottom - top) * i / (len(ticks) - 1)
            out.append(Mark(f"{id}.grid.{i}", (CHART_LEFT, y - 0.5, CHART_RIGHT - CHART_LEFT, 1), "card track"))
            out.append(Mark(f"{id}.tick.{i}", (CHART_LEFT - 6, y + 3.5), "text s9 soft end", text))
    for id, (top, bottom), largest, values in (("chart", SHARES, 1.0, shares), ("count", COUNTS, most, counts)):
        order = sorted(KINDS, key=lambda kind: kind == selected)  # the chosen one in front
        for kind in order:
            path = _steps([v / largest for v in values[kind]], top, bottom)
            cls = f"path line {kind.replace('_', '-')}" + (" chosen" if kind == selected else "")
            out.append(Mark(f"{id}.line.{kind}", (), cls, path))
    means = {kind: sum(of) / len(of) for kind, of in shares.items()}
    peaks = {kind: max(of) for kind, of in counts.items()}
    for i, kind in enumerate(sorted(KINDS, key=lambda kind: -means[kind])):
        y, bold = SHARES[0] + 16 + i * 20, "bold" if kind == selected else "soft"
        out.append(Mark(f"key.{kind}", (), f"path line {kind.replace('_', '-')}{' chosen' if kind == selected else ''}",
                        f"M{CHART_RIGHT + 16:g} {y - 4:g}h26"))
        out.append(Mark(f"key.{kind}.t", (CHART_RIGHT + 50, y), f"text s11 {bold}", words.SHORT[kind]))
        out.append(Mark(f"key.{kind}.mean", (RIGHT - 56, y), f"text mono s11 end {bold}", f"{means[kind]:.0%}"))
        out.append(Mark(f"key.{kind}.peak", (RIGHT, y), f"text mono s11 end {bold}", str(peaks[kind])))
    out.append(Mark("key.mean", (RIGHT - 56, SHARES[0]), "text s9 soft end", "mean"))
    out.append(Mark("key.peak", (RIGHT, SHARES[0]), "text s9 soft end", "most at once"))
    return out


def _steps(values: Sequence[float], top: float, bottom: float) -> str:
    """A line of steps: each value holds for one column, that of the moment it was reached in."""
    pitch = (CHART_RIGHT - CHART_LEFT) / max(1, len(values))
    path, before = "", None
    for i, value in enumerate(values):
        y = bottom - (bottom - top) * value
        if before is None:
            path = f"M{CHART_LEFT:g} {y:.1f}"
        elif value != before:
            path += f"H{CHART_LEFT + pitch * i:.1f}V{y:.1f}"
        before = value
    return path + f"H{CHART_RIGHT:g}"
