"""The preemption lab: two runs of one workload side by side, and below them who ran when, and what it cost.

``marks(scene)`` is a pure function of both runs at one step; ``chart(histories, …)`` of all steps so far. The blocks
are drawn by the memory map's own functions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pagedlab.viz.kit.areas import Area
from pagedlab.viz.kit.badge import badge_marks, badge_width, is_a_cpus, memory_title
from pagedlab.viz.kit.chips import chip
from pagedlab.viz.kit.cpu_pool import cpu_marks
from pagedlab.viz.kit.flow import Flow
from pagedlab.viz.kit.grid import pool_grid
from pagedlab.viz.kit.head import LEFT, RIGHT
from pagedlab.viz.kit.labels import family_hues, names, plural, printable
from pagedlab.viz.kit.marks import Mark
from pagedlab.viz.kit.pool import pool_marks
from pagedlab.viz.kit.scene import Scene as Memory
from pagedlab.viz.kit.strip import Strip
from pagedlab.viz.kit.table import row
from pagedlab.viz.kit.text import fitted, measure
from pagedlab.viz.victims import words
from pagedlab.viz.victims.run import PreemptionHistory, Stay

SIZE = (960.0, 536.0)
HALF = 440.0
HALVES = (LEFT, RIGHT - HALF)
LANES = (76.0, 104.0)  # who runs, who waits
CHIP = 22.0
POOL_TITLE, POOL_TOP, POOL_HEIGHT = 146.0, 153.0, 98.0
BOX = 254.0  # what became of the victims' memory
STORY = 321.0
# The chart, which is the scrubber too.
CHART_LEFT, CHART_RIGHT = 98.0, 664.0
CHARTS = ((388.0, 444.0), (466.0, 522.0))  # top and bottom of each run's rows
CHART_TITLE = 364.0
PRICE = (868.0, 936.0)  # right edges of each run's column
MOST_REQUESTS = 28  # two pixels each
AREAS = (
    Area((0, 0, 960, 48)),
    *(
        Area((x - 10, y, HALF + 20, height))
        for x in HALVES
        for y, height in ((48, 24), (72, 60), (132, POOL_TOP - 132), (POOL_TOP, BOX - POOL_TOP), (BOX, 56), (310, 40))
    ),
    Area((0, 350, 676, 20)),
    Area((0, 370, 676, 166), "chart", (CHART_LEFT, CHART_RIGHT)),
    Area((676, 350, 284, 186), "whole"),
)


@dataclass
class Scene:
    """What one picture depends on. ``memory``: of each run; ``step``: how many steps are finished at the cursor;
    ``selected``: whose blocks stand out; ``asking``: in which runs it is to be predicted who makes room."""

    memory: Sequence[Memory]
    histories: Sequence[PreemptionHistory]
    names: Sequence[str]  # of the runs
    step: int
    selected: str | None
    badge: str
    live: bool
    asking: Sequence[bool] = (False, False)
    guesses: Sequence[str | None] = (None, None)

    def __post_init__(self) -> None:
        self.requests = {**self.memory[1].state.requests, **self.memory[0].state.requests}
        self.short = names(self.histories[0].state.requests | self.histories[1].state.requests)
        self.hues = family_hues(self.histories[0].state.requests | self.histories[1].state.requests)

    def hue(self, request_id: str) -> str:
        return f"c{self.hues[request_id]}"

    @property
    def headline(self) -> str:
        return self.headlines[0]

    @property
    def headlines(self) -> tuple[str, str]:
        """Two ways to say it, the longer one first: where both engines are named, there is little room."""
        sentence = words.headline(self.histories, self.step)
        if sentence:
            return sentence, sentence.removeprefix(words.RAN_OUT)
        states = [memory.state for memory in self.memory]
        if self.step and not any(s.running or s.waiting or s.swapped for s in states):
            steps = [h.num_steps for h in self.histories]
            return f"All are done, after {steps[0]} steps (left) and {steps[1]} (right)", "All are done"
        away = [len(s.swapped) + sum(s.requests[r].status == "preempted" for r in s.waiting) for s in states]
        running = [len(s.running) for s in states]
        return words.counts(running, away), words.counts(running, [0, 0])


def title(scene: Scene) -> str:
    """The picture in one line, for a screen reader and as the static picture's name."""
    return f"Preemption, step {scene.step}. {scene.headline}"


def marks(scene: Scene) -> list[Mark]:
    """Everything but the chart."""
    out = [*_header(scene), Mark("step", (CHART_RIGHT, CHART_TITLE), "text s12 soft end", f"step {scene.step}")]
    for side in (0, 1):
        out += [*_titles(scene, side), *_lanes(scene, side), *_pool(scene, side), *_victims(scene, side)]
        out += _story(scene, side)
    return [*out, *_price(scene)]


def _header(scene: Scene) -> Iterator[Mark]:
    w = badge_width(scene.badge)
    yield from badge_marks(scene.badge, scene.live, RIGHT)
    x = RIGHT - w - 16
    room = RIGHT - w - 16 - LEFT - 400
    shown = list(scene.short)[: max(1, int(room // 46))]
    if len(shown) < len(scene.short):
        yield Mark("chips.more", (x, 36), "text s11 soft end", f"+{len(scene.short) - len(shown)}")
        x -= 30
    for request_id in reversed(shown):
        chosen, hue, name = request_id == scene.selected, scene.hue(request_id), scene.short[request_id]
        tip = f"Show request {printable(request_id)}"
        yield from chip(request_id, (x - 38, 21, 38, 22), name, chosen, hue, tip)
        x -= 46
    yield Mark("head.line", (LEFT, 37), "text s18 semi", fitted(scene.headlines, x - LEFT, "s18 bold"))


def _titles(scene: Scene, side: int) -> Iterator[Mark]:
    x, name = HALVES[side], scene.names[side].upper()
    line = Flow(x, 66).text(f"title.{side}", name, "s13 bold")
    says = fitted(words.run_says(scene.memory[side].header), x + HALF - line.x, "s11 soft")
    yield from line.text(f"title.{side}.says", says, "s11 soft")


def _lanes(scene: Scene, side: int) -> Iterator[Mark]:
    """The queues. A request is the same mark in both, so it is seen to move."""
    state, x = scene.memory[side].state, HALVES[side]
    lanes = (("RUNS", list(state.running)), ("WAITS", [*state.swapped, *state.waiting]))
    for lane, (y, (word, queue)) in enumerate(zip(LANES, lanes, strict=True)):
        at = y + (11 if lane == 0 else 15)
        yield Mark(f"lane.{side}.{lane}", (x, at), "text s11 bold soft", word)
        yield Mark(f"lane.{side}.{lane}.n", (x + 58, at), "text mono s12 end", str(len(queue)))
        if lane == 0:
            yield Mark(f"lane.{side}.key", (x, y + 21), "text s8 soft", "tokens held")
        at, most = x + 72, int((HALF - 72 - 34) // 62)
        for place, request_id in enumerate(queue[:most]):
            yield from _who(scene, side, request_id, (at, y), lane, place)
            at += 62
        if len(queue) > most:
            yield Mark(f"lane.{side}.{lane}.more", (at, y + 15), "text s11 soft", f"+{len(queue) - most}")
        if not queue:
            yield Mark(f"lane.{side}.{lane}.none", (at, y + 15), "text s11 soft", "nobody")


def _who(scene: Scene, side: int, request_id: str, at: tuple[float, float], lane: int, place: int) -> Iterator[Mark]:
    state, hue, name = scene.memory[side].state, scene.hue(request_id), scene.short[request_id]
    request = state.requests[request_id]
    id = f"who.{list(scene.short).index(request_id)}.{side}"
    x, y = at
    tip = f"{name} {request.status}, {plural(request.num_tokens, 'token')}, {request.num_computed_tokens} in memory"
    if lane == 0:
        cls = f"card disc {hue}" + (" askable" if scene.asking[side] else "")
        tip += ": click if you expect it to make room" if scene.asking[side] else ""
    else:
        cls = f"card owned again {hue}" if request.status in ("preempted", "swapped") else f"card owned {hue}"
        tip += ", first in the queue" if place == 0 else ""
    yield Mark(id, (x, y, 56, CHIP), cls, tip=tip)
    color = "on" if lane == 0 else f"hue {hue}"
    yield Mark(f"{id}.name", (x + 10, y + 15.5), f"text s12 bold {color}", fitted(name, 24, "s12 bold"))
    words_of = {"preempted": "again", "swapped": "CPU", "waiting": "new"}
    count = words_of.get(request.status, str(request.num_computed_tokens))  # as many as its blocks show below
    cls = "on" if lane == 0 else "soft"
    cls += " mono s10" if count.isdigit() else " s9"
    yield Mark(f"{id}.n", (x + 50, y + 15), f"text end {cls}", count)
    if lane == 0 and scene.guesses[side] == request_id:
        yield Mark(f"guess.{side}", (x - 3, y - 3, 62, CHIP + 6), "over guess")


def _pool(scene: Scene, side: int) -> Iterator[Mark]:
    memory, x = scene.memory[side], HALVES[side]
    state = memory.state
    line = Flow(x, POOL_TITLE).text(f"pool.{side}", memory_title(memory.header), "s11 bold soft")
    free = len(state.free)
    says, cls = f"{free} of {memory.num_usable} blocks free", "s11 soft" if free else "s11 alarm bold"
    if state.era != "v1":  # vLLM v0.2.0 BlockSpaceManager.can_append_slot
        says = fitted(f"{says} · nobody goes on without a free one", x + HALF - line.x, cls)
    line.text(f"pool.{side}.free", says, cls)
    most = max(other.state.num_blocks for other in scene.memory)  # both in rows of equal length
    grid = pool_grid(most, (x, POOL_TOP, HALF, POOL_HEIGHT))
    if grid.per_cell > 1:
        grid = pool_grid(state.num_blocks, (x, POOL_TOP, HALF, POOL_HEIGHT))
    if state.cached and grid.tier == "detail":
        line.text(f"pool.{side}.key.w", "◆ cached", "s11 soft")
    elif grid.per_cell == 1 and any(block in state.cached for block in state.free):
        line.skip(2).sign(f"pool.{side}.key", (18, 12), "card kept tiny", up=10, gap=-16)
        line.sign(f"pool.{side}.key.full", (14, 3), "cell sharp ghost", up=3, gap=8)
        line.text(f"pool.{side}.key.w", "free, but its tokens can be found", "s11 soft")
    yield from line
    for mark in pool_marks(memory, grid):
        # The same ids in both halves would be the same marks; and blocks are not what is asked for here.
        yield mark._replace(id=f"{side}~{mark.id}", cls=mark.cls.replace(" askable", ""))


def _victims(scene: Scene, side: int) -> Iterator[Mark]:
    """What became of their memory: on the CPU, or gone but for what the prefix cache still finds."""
    memory, x = scene.memory[side], HALVES[side]
    state = memory.state
    if state.cpu.num_blocks:
        for mark in cpu_marks(memory, (x, BOX), "CPU "):
            if mark.id == "cpu.says" and is_a_cpus(memory.header):
                mark = mark._replace(text=f"{mark.text} · here a second pool in RAM")
            yield mark._replace(id=f"{side}~{mark.id}")
        return
    gone = [r for r in state.waiting if state.requests[r].status == "preempted"]
    caching = memory.header["config"].get("enable_prefix_caching")
    says = "full: still in the cache, could be found now" if caching else "nothing of it can be found again"
    line = Flow(x, BOX + 14).text(f"gone.{side}", "GIVEN BACK", "s11 bold soft")
    yield from line.text(f"gone.{side}.says", says if gone else "nothing now", "s11 soft")
    shown = gone if len(gone) <= 4 else gone[:3]
    column = HALF / 2
    for i, request_id in enumerate(shown):
        hue, history = scene.hue(request_id), scene.histories[side]
        away = next(a for a in history.aways[::-1] if a.request_id == request_id and a.step <= scene.step)
        found, gave = history.findable(state, away), away.num_tokens
        left, y = x + i % 2 * column, BOX + 20 + i // 2 * 19
        bar, w = 96.0, 96.0 * found / max(1, gave)
        id = f"gone.{side}.{request_id}"
        yield Mark(f"{id}.name", (left, y + 11), f"text s11 bold hue {hue}", fitted(scene.short[request_id], 22, "s11"))
        if found:
            yield Mark(f"{id}.found", (left + 24, y + 2, w, 11), f"cell sharp {hue}")
        yield Mark(f"{id}.lost", (left + 24 + w, y + 2, bar - w, 11), f"cell sharp hatched never {hue}")
        text = f"{found} of {gave} tokens"
        yield Mark(f"{id}.says", (left + 24 + bar + 6, y + 11), "text s10 soft", fitted(text, column - bar - 34, "s10"))
    if len(shown) < len(gone):
        yield Mark(f"gone.{side}.more", (x + column, BOX + 50), "text s10 soft", f"+{len(gone) - len(shown)} more")


def _story(scene: Scene, side: int) -> Iterator[Mark]:
    x, history, memory = HALVES[side], scene.histories[side], scene.memory[side]
    step = min(scene.step, history.num_steps)
    sentences = words.story(history, memory.events if scene.step <= history.num_steps else (), scene.step)
    loud = scene.step <= history.num_steps and bool(words.went(history, step) or words.came(history, step))
    lines, tip = _lines(sentences, loud), " ".join(sentences)
    for less in (" → ", "wants a free one"):  # where there is no room for all: the moves stand in the pools, too
        if len(lines) > 3:
            sentences = [sentence for sentence in sentences if less not in sentence]
            lines = _lines(sentences, loud)
    pitch = 15 if len(lines) < 3 else 13
    for i, line in enumerate(lines[:3]):
        bold, more = loud and i == 0, " …" if i == 2 and len(lines) > 3 else ""
        text = fitted(line + more, HALF, f"s11{' bold' if bold else ''}")
        yield Mark(f"story.{side}.{i}", (x, STORY + pitch * i), f"text s11{' bold' if bold else ''}", text, tip=tip)


def _lines(sentences: Sequence[str], loud: bool) -> list[str]:
    """Sentences in lines; each begins a new one where it does not fit. The first line may be bold."""
    lines = [""]
    for sentence in sentences:
        bold = loud and len(lines) == 1
        if lines[-1] and measure(f"{lines[-1]} {sentence}", f"s11{' bold' if bold else ''}") > HALF - 6:
            lines.append(sentence)
        else:
            lines[-1] = f"{lines[-1]} {sentence}".strip()
    return lines


def _price(scene: Scene) -> Iterator[Mark]:
    """The bill so far."""
    prices = [history.price(scene.step) for history in scene.histories]
    y = CHART_TITLE
    yield Mark("price.title", (CHART_RIGHT + 24, y), "text s11 bold soft", "THE PRICE SO FAR")
    columns, cls = {"0": PRICE[0], "1": PRICE[1]}, "s10 bold end"
    yield from row("price.name", y + 20, columns, [fitted(name, 66, cls) for name in scene.names], cls)
    moved = [words.amount(p.carried * h.bytes_per_block) for p, h in zip(prices, scene.histories, strict=True)]
    rows = (
        ("preemptions", "preemptions", [str(p.preemptions) for p in prices]),
        ("again", "tokens computed again", [f"{p.recomputed}" for p in prices]),
        ("found", "tokens found in cache", [f"{p.found}" for p in prices]),
        ("moved", "bytes carried", moved),
        ("steps", "steps", [str(p.steps) for p in prices]),
        ("seconds", "seconds, all steps", [f"{p.seconds:.2f}" for p in prices]),
    )
    tips = {
        "again": "tokens whose K and V had been in memory before",
        "found": "tokens that came back as prefix hits",
        "moved": "bytes copied to the CPU's memory and back",
        "seconds": "what all steps so far took, on this machine",
    }
    for i, (id, text, values) in enumerate(rows):
        at = y + 40 + i * 19
        yield Mark(f"price.{id}", (CHART_RIGHT + 24, at), "text s11", text, tip=tips.get(id, ""))
        loud = ["soft" if value in ("0", "0 B") else "bold" for value in values]
        special = {str(side): f"mono s11 end {loud[side]}" for side in (0, 1)}
        yield from row(f"price.{id}", at, columns, values, special=special)


# ------------------------------------------------------------------------------------------------------- the chart


def chart(histories: Sequence[PreemptionHistory], run_names: Sequence[str], columns: int) -> Strip:
    """Step by step and request by request: full where it ran, hatched where it gave its memory back, pale where that
    lies on the CPU, a line where it waits for its first step."""
    top, bottom = CHARTS[0][0], CHARTS[1][1]
    time = Strip(CHART_LEFT, top, CHART_RIGHT - CHART_LEFT, bottom - top, columns)
    line = Flow(LEFT, CHART_TITLE).text("chart.title", "WHO RUNS", "s11 bold soft")
    for id, cls, text in (
        ("runs", "cell c0", "runs"),
        ("away", "cell hatched never c0", "gave back"),
        ("cpu", "cell dim c0", "on the CPU"),
    ):
        line.sign(f"chart.{id}", (13, 10), cls).text(f"chart.{id}.t", text, "s10 soft", 14)
    line.sign("chart.waits", (13, 3), "cell sharp dim c0", up=5).text("chart.waits.t", "waits to start", "s10 soft")
    out = [*line]
    requests = histories[0].state.requests | histories[1].state.requests
    short, hues = names(requests), family_hues(requests)
    for side, (top, bottom) in enumerate(CHARTS):
        name = fitted(run_names[side], CHART_LEFT - LEFT - 4, "s10 bold")  # the line of time passes beside it
        out.append(Mark(f"chart.name.{side}", (LEFT, top - 5), "text s10 bold soft", name))
        pitch = min(14.0, (bottom - top) / max(1, len(requests)))
        height = pitch - (2 if pitch >= 8 else 0.5)
        for place, request_id in enumerate(requests):
            y = top + place * pitch
            hue = f"c{hues[request_id]}"
            id = f"bar.{side}.{place}"
            if pitch >= 9 or place % max(1, round(9 / pitch)) == 0:
                out.append(
                    Mark(f"{id}.name", (CHART_LEFT - 6, y + height / 2 + 3.5), f"text s9 bold end hue {hue}",
                         fitted(short[request_id], 24, "s9"))
                )  # fmt: skip
            out.append(Mark(id, (CHART_LEFT, y, CHART_RIGHT - CHART_LEFT, height), "card track"))
            for stay in histories[side].stays.get(request_id, []):
                out += _bar(histories[side], request_id, stay, f"{id}.{stay.first}", y, height, hue, time)
    time.marks = out
    return time


def _bar(
    history: PreemptionHistory, request_id: str, stay: Stay, id: str, y: float, h: float, hue: str, time: Strip
) -> Iterator[Mark]:
    last = history.num_steps if stay.last is None else stay.last
    x, end = time.x_of(stay.first - 1), time.x_of(last)
    if stay.status == "waiting":
        yield Mark(id, (x, y + h * 0.36, end - x, h * 0.28), f"cell sharp dim {hue}")
        return
    if stay.status == "running":
        yield Mark(id, (x, y, end - x, h), f"cell sharp {hue}")
        return
    away = next(a for a in history.aways if a.request_id == request_id and a.step == stay.first)
    cls = "cell sharp hatched never" if stay.status == "preempted" else "cell sharp dim"
    yield Mark(id, (x, y, end - x, h), f"{cls} {hue}")
    if h < 9:
        return
    for text in words.bar_words(away, history.bytes_per_block):
        if measure(text, "s9") + 8 <= end - x:
            if stay.status == "preempted":  # words are not read on hatching
                yield Mark(f"{id}.tag", (x + 3, y + 1, measure(text, "s9") + 4, h - 2), "cell sharp tag")
            yield Mark(f"{id}.t", (x + 5, y + h / 2 + 3.4), "text s9", text)
            return
