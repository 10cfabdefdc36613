"""Two lanes, plan and run, over the last calls of the engine's ``step()``: in which order things happened, not how long
they took."""

from __future__ import annotations

from collections.abc import Iterator

from pagedlab.viz.kit.areas import Area
from pagedlab.viz.kit.flow import heading
from pagedlab.viz.kit.head import LEFT, RIGHT
from pagedlab.viz.kit.labels import plural, quoted
from pagedlab.viz.kit.marks import Mark
from pagedlab.viz.kit.text import fitted, wrapped
from pagedlab.viz.shares import words
from pagedlab.viz.shares.layout import Scene, foot, head
from pagedlab.viz.shares.run import Share, Step

CALLS = 4
FIRST = 84.0  # left edge of the first column
PITCH = (RIGHT - FIRST) / CALLS
LANES = {"PLAN": 92.0, "RUN": 232.0}
HEIGHT, LINE, MOST = 124.0, 15.0, 6
SAYS = 388.0
AREAS = (
    Area((0, 0, 960, 56)),
    Area((0, 56, 960, 30)),
    *(Area((0, y - 4, 960, HEIGHT + 10)) for y in LANES.values()),
    Area((0, 366, 960, 110)),
    Area((0, 478, 960, 22)),
    Area((0, 500, 960, 50), "chart", (LEFT, RIGHT)),
)
NOTHING = ("The plan was made when all tokens before it were known.", "Nothing.")


def marks(scene: Scene) -> list[Mark]:
    return [*head(scene), *_lanes(scene), *_says(scene), *foot(scene)]


def _lanes(scene: Scene) -> Iterator[Mark]:
    what = "in each column a plan, then its run; the next plan waits for its tokens"
    if scene.ahead:
        what = "in each column a plan is made while the step before it runs; ?: a token that is being sampled then"
    yield from heading("lanes", (LEFT, 76), "ORDER, NOT DURATION", what)
    for name, y in LANES.items():
        yield Mark(f"lane.{name}", (LEFT, y + 20), "text s12 bold soft", name)
    first = max(0, scene.position - CALLS)
    for column, step in enumerate(scene.steps[first:]):
        x = FIRST + column * PITCH
        now = " now" if step.number == scene.position else ""
        before = scene.steps[step.number - 2] if step.number > 1 else None
        if scene.ahead:
            yield from _plan(scene, step, (x, PITCH - 10), now)
            if before and before.shares:
                yield from _run(scene, before, step, (x, PITCH - 10), now)
        else:
            yield from _plan(scene, step, (x, 94), now)
            if step.shares:
                yield from _run(scene, step, step, (x + 98, PITCH - 108), now)
    if not scene.steps:
        yield Mark("lane.none", (FIRST, LANES["PLAN"] + 20), "text s12 soft", "no step yet")


def _plan(scene: Scene, step: Step, place: tuple[float, float], now: str) -> Iterator[Mark]:
    lines = [(r, _planned(scene, r, share), "") for r, share in step.shares.items()]
    lines += [(r, ("thrown out",), "alarm") for r in step.preempted]
    yield from _box(scene, f"plan.{step.number}", f"plan {step.number}", LANES["PLAN"], place, lines, now)


def _planned(scene: Scene, request_id: str, share: Share) -> tuple[str, ...]:
    size = f"{share.num_tokens:,}" + (" ?" if share.is_awaited else "")
    if not share.blocks:
        return (size,)
    listed = " ".join(f"#{block}" for block in share.blocks)
    return (f"{size}  takes {listed}", f"{size}  {listed}", f"{size} +{plural(len(share.blocks), 'block')}", size)


def _run(scene: Scene, step: Step, call: Step, place: tuple[float, float], now: str) -> Iterator[Mark]:
    """``step``: whose plan runs; ``call``: in which its tokens come."""
    lines = []
    ended = scene.steps[step.number - 1].finished if scene.ahead else {}
    for request_id, share in step.shares.items():
        if request_id in call.sampled:
            text, cls = (f"→ {quoted(call.sampled[request_id])}",), ""
        elif request_id in ended:
            text, cls = ("token dropped", "dropped"), "alarm"
        else:
            text, cls = (f"{share.num_tokens:,} tokens, more to come", f"{share.num_tokens:,} tokens"), "soft"
        lines.append((request_id, text, cls))
    yield from _box(scene, f"run.{step.number}", f"step {step.number} runs", LANES["RUN"], place, lines, now)


def _box(
    scene: Scene, id: str, title: str, y: float, place: tuple[float, float], lines: list[tuple], now: str
) -> Iterator[Mark]:
    x, w = place
    yield Mark(id, (x, y, w, HEIGHT), f"card block{now}")
    yield Mark(f"{id}.title", (x + 8, y + 17), "text s11 bold", fitted(title, w - 12, "s11 bold"))
    shown = lines if len(lines) <= MOST else lines[: MOST - 1]
    for i, (request_id, text, cls) in enumerate(shown):
        at = y + 35 + i * LINE
        name = scene.names[request_id]
        yield Mark(
            f"{id}.{i}.name", (x + 8, at), f"text s11 bold hue {scene.hue(request_id)}", fitted(name, 30, "s11 bold")
        )
        yield Mark(f"{id}.{i}", (x + 40, at), f"text s11 {cls}".rstrip(), fitted(text, w - 64, "s11"))
    if len(lines) > len(shown):
        more = f"and {len(lines) - len(shown)} more"
        yield Mark(f"{id}.more", (x + 8, y + 35 + len(shown) * LINE), "text s11 soft", fitted(more, w - 12, "s11"))
    if not lines:
        yield Mark(f"{id}.none", (x + 8, y + 35), "text s11 soft", "nobody")


def _says(scene: Scene) -> Iterator[Mark]:
    title = "WHAT PLANNING AHEAD CHANGES HERE" if scene.ahead else "IN THIS STEP"
    yield from heading("says", (LEFT, SAYS - 8), title)
    sentences = words.overlap(scene.steps, scene.names) if scene.ahead else words.story(scene.step, scene.names)
    y = SAYS + 12
    for i, sentence in enumerate((sentences or [NOTHING[scene.ahead]])[:4]):
        for k, line in enumerate(wrapped(sentence, RIGHT - LEFT, "s12", 2 if len(sentences) < 3 else 1)):
            yield Mark(f"says.{i}.{k}", (LEFT, y), "text s12", line)
            y += 17
