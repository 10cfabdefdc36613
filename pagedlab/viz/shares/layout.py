"""The step as a bar of tokens by request within the budget, and below it what each request has computed and has still
to compute. What both pictures of this folder have is here too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from pagedlab.trace import MemoryState
from pagedlab.viz.kit import labels
from pagedlab.viz.kit.areas import Area
from pagedlab.viz.kit.flow import heading
from pagedlab.viz.kit.head import LEFT, RIGHT, top_line
from pagedlab.viz.kit.marks import Mark
from pagedlab.viz.kit.strip import Strip
from pagedlab.viz.kit.text import fitted, measure, wrapped
from pagedlab.viz.shares import words
from pagedlab.viz.shares.run import Step, is_placeholder, queue, to_compute

SIZE = (960.0, 556.0)
BAR = (86.0, 40.0)  # top, height
LEAST = 7.0  # pixels of a share of one token
ASK, ANSWER = 158.0, (92.0, 26.0)
ROWS, PITCH, MOST_ROWS = 248.0, 21.0, 9
TRACK = (126.0, 640.0)  # left and right of what a request has computed
NUMBERS = (742.0, 926.0)  # right edges: in this step, to compute next
STORY = 455.0
FOOT, TIME = 494.0, (513.0, 34.0)
STATUS = {"running": "runs", "finished": "done", "refused": "refused"}
AREAS = (
    Area((0, 0, 960, 56)),
    Area((0, 56, 960, 80), "chart", (LEFT, RIGHT)),
    Area((0, 136, 960, 76)),
    Area((0, 212, 960, 24)),
    Area((0, 236, 960, 204), "chart", (TRACK[0], RIGHT)),
    Area((0, 440, 960, 38)),
    Area((0, 478, 960, 22)),
    Area((0, 500, 960, 50), "chart", (LEFT, RIGHT)),
)


@dataclass
class Scene:
    """What one picture depends on. ``steps``: all up to the cursor. ``largest``: tokens of the run's largest step.
    ``question``: who is asked about, and the answers to choose from."""

    state: MemoryState
    header: dict[str, Any]
    steps: Sequence[Step]
    largest: int
    badge: str
    live: bool
    ahead: bool
    question: tuple[str, Sequence[int]] | None = None
    guess: int | None = None
    names: dict[str, str] = field(init=False)
    hues: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        self.names = labels.names(self.state.requests)
        self.hues = labels.family_hues(self.state.requests)

    def hue(self, request_id: str) -> str:
        return f"c{self.hues[request_id]}"

    def number(self, request_id: str) -> int:
        """Of a request, for the ids of its marks."""
        return list(self.state.requests).index(request_id)

    @property
    def step(self) -> Step | None:
        return self.steps[-1] if self.steps else None

    @property
    def budget(self) -> int | None:
        return self.header["config"].get("max_num_batched_tokens")

    @property
    def position(self) -> int:
        return len(self.steps)


def head(scene: Scene) -> list[Mark]:
    line = words.headlines(scene.step, scene.names, scene.budget)
    return top_line(line, scene.badge, scene.live)


def marks(scene: Scene) -> list[Mark]:
    return [*head(scene), *_bar(scene), *_question(scene), *_requests(scene), *_story(scene), *foot(scene)]


def foot(scene: Scene) -> Iterator[Mark]:
    yield from heading("time.title", (LEFT, FOOT), "TOKENS IN EACH STEP", "dark: of prompts")
    yield Mark("step", (RIGHT, FOOT), "text s12 soft end", f"step {scene.position}")


def scale(scene: Scene) -> tuple[int, bool]:
    """How many tokens the bar's whole width stands for, and whether the budget ends beyond it."""
    seen = max(scene.largest, 8)
    if scene.budget is None:
        return seen, False
    return (scene.budget, False) if scene.budget <= 5 * seen else (2 * seen, True)


def widths(tokens: Sequence[int], per_token: float, room: float) -> list[float]:
    """Of each share: as many pixels as its tokens, but at least ``LEAST``; where that is too wide, the widest give."""
    out = [max(LEAST, n * per_token) for n in tokens]
    over = sum(out) - room
    for i in sorted(range(len(out)), key=lambda i: -out[i]):
        if over <= 0:
            break
        cut = min(over, out[i] - LEAST)
        out[i] -= cut
        over -= cut
    return out


def _bar(scene: Scene) -> Iterator[Mark]:
    most, cut = scale(scene)
    y, h = BAR
    what = "one mark for each request, in scheduling order, as wide as its tokens"
    if scene.budget is not None:
        what = f"a budget of {scene.budget:,} tokens; {what}"
    yield from heading("bar", (LEFT, y - 10), "THIS STEP", what)
    yield Mark("bar.budget", (LEFT, y, RIGHT - LEFT, h), "card", tip=f"The budget: {scene.budget} tokens a step")
    if scene.step is None:
        yield Mark("bar.none", (LEFT + 12, y + 25), "text s12 soft", "no step yet")
        return
    shares = list(scene.step.shares.items())
    inside = RIGHT - LEFT - 4
    sizes = widths([share.num_tokens for _, share in shares], inside / most, inside)
    x = LEFT + 2
    for (request_id, share), w in zip(shares, sizes, strict=True):
        id, hue, name = f"share.{scene.number(request_id)}", scene.hue(request_id), scene.names[request_id]
        kind = "of its prompt" if share.is_prompt else "to go on"
        tip = f"{name}: {labels.plural(share.num_tokens, 'token')} {kind}"
        yield Mark(id, (x, y + 4, max(2.0, w - 1), h - 8), f"cell sharp {hue}", tip=tip)
        text = fitted((f"{name} {share.num_tokens:,}", name), w - 8, "s13 bold") if w > 14 else ""
        if text and "…" not in text:
            yield Mark(f"{id}.t", (x + w / 2, y + 25), f"text s13 bold mid on {hue}", text)
        x += w
    free = (scene.budget or 0) - scene.step.num_tokens
    left = f"{free:,} not used" if free > 0 else ""
    if cut:
        left = f"{left}; the budget ends beyond this picture →"
    if left and RIGHT - 10 - x > measure(left, "s11"):
        yield Mark("bar.left", (RIGHT - 10, y + 24), "text s11 soft end", left)


def _requests(scene: Scene) -> Iterator[Mark]:
    y = ROWS - 20
    what = "grey: computed before · full: in this step · dashed: to compute"
    yield from heading("rows", (LEFT, y), "REQUESTS", what)
    yield Mark("rows.now", (NUMBERS[0], y), "text s11 soft end", "in this step")
    yield Mark("rows.next", (NUMBERS[1], y), "text s11 soft end", "to compute next")
    order = queue(scene.state)
    done = [r for r in (scene.step.finished if scene.step else ()) if r not in order]
    shown = [*order, *done][: MOST_ROWS if len(order) + len(done) <= MOST_ROWS else MOST_ROWS - 1]
    longest = max((scene.state.requests[r].num_tokens for r in shown), default=1)
    for i, request_id in enumerate(shown):
        yield from _request(scene, request_id, ROWS + i * PITCH, longest)
    more = len(order) + len(done) - len(shown)
    if more:
        yield Mark("rows.more", (LEFT, ROWS + len(shown) * PITCH + 9), "text s11 soft", f"and {more} more")
    if not shown:
        yield Mark("rows.none", (LEFT, ROWS + 9), "text s11 soft", "nobody")


def _request(scene: Scene, request_id: str, y: float, longest: int) -> Iterator[Mark]:
    request = scene.state.requests[request_id]
    share = scene.step.shares.get(request_id) if scene.step else None
    id, hue = f"row.{scene.number(request_id)}", scene.hue(request_id)
    name = fitted(scene.names[request_id], 40, "s12 bold")
    yield Mark(f"{id}.name", (LEFT, y + 9), f"text s12 bold hue {hue}", name)
    status = STATUS.get(request.status, "waits")
    yield Mark(f"{id}.status", (LEFT + 46, y + 9), "text s11 soft", status)
    per_token = (TRACK[1] - TRACK[0]) / longest
    now = share.num_tokens if share and request.status == "running" else 0
    computed = request.num_computed_tokens if request.status != "finished" else 0
    x = TRACK[0]
    parts = [("before", computed - now, "cell sharp ghost"), ("now", now, f"cell sharp {hue}")]
    waits_for_one = is_placeholder(scene.state, request_id, scene.ahead)
    left = max(0, request.num_tokens - computed) if request.status != "finished" else 0
    for name, n, cls in (*parts, ("left", left + waits_for_one, f"cell sharp waiting {hue}")):
        w = n * per_token
        if n > 0:
            w = max(w, 7.0 if name == "left" else 3.0)
            yield Mark(f"{id}.{name}", (x, y, w, 10), cls, tip=f"{labels.plural(n, 'token')}")
            x += w
    if share:
        yield Mark(f"{id}.n", (NUMBERS[0], y + 9), "text mono s12 end", f"{share.num_tokens:,}")
    if request.status == "finished":
        return
    n = to_compute(scene.state, request_id, scene.ahead)
    text = f"{n:,}"
    if waits_for_one:
        text = "1, still being sampled"
    elif scene.ahead and n == 0 and request.status == "running":
        text = "0, its last is under way"
    elif request.status == "waiting" and n < request.num_tokens:
        text = f"{n:,}, the rest is in memory"
    cls = "text mono s12 end" if text.replace(",", "").isdigit() else "text s11 end"
    yield Mark(f"{id}.next", (NUMBERS[1], y + 9), cls, text)


def _question(scene: Scene) -> Iterator[Mark]:
    if scene.question is None:
        says = "everybody has at most one token to compute" if queue(scene.state) else "nobody is here"
        yield from heading("ask", (LEFT, ASK), "NEXT STEP", says)
        return
    request_id, answers = scene.question
    name, hue = scene.names[request_id], scene.hue(request_id)
    yield from heading("ask", (LEFT, ASK), "NEXT STEP", f"how many tokens of {name} are in it?")
    x, (w, h) = LEFT, ANSWER
    for n in answers:
        tip = f"{labels.plural(n, 'token')} of {name} in the next step"
        yield Mark(f"answer.{n}", (x, ASK + 10, w, h), f"card owned {hue} askable", tip=tip)
        yield Mark(f"answer.{n}.t", (x + w / 2, ASK + 27), "text s13 bold mid", f"{n:,}")
        if scene.guess == n:
            yield Mark("guess", (x - 3, ASK + 7, w + 6, h + 6), "over guess")
        x += w + 12


def _story(scene: Scene) -> Iterator[Mark]:
    text = " ".join(words.story(scene.step, scene.names))
    for i, line in enumerate(wrapped(text, RIGHT - LEFT, "s12", 2) if text else ()):
        yield Mark(f"story.{i}", (LEFT, STORY + 17 * i), "text s12", line)


def strip(steps: Sequence[Step], columns: int) -> Strip:
    """A bar for each step: its tokens, and dark in it those of prompts."""
    time = Strip(LEFT, *(TIME[0], RIGHT - LEFT, TIME[1]), columns)
    pitch, bottom = time.width / columns, TIME[0] + TIME[1]
    most = max([1, *(step.num_tokens for step in steps)])
    out = [Mark("time.track", (LEFT, bottom - 1, time.width, 1), "card track")]
    w = max(0.5, pitch - (1 if pitch > 3 else 0))
    for i, step in enumerate(steps):
        if step.num_tokens:
            h = max(2.0, time.height * step.num_tokens / most)
            out.append(Mark(f"time.{i + 1}", (time.x_of(i), bottom - h, w, h), "cell sharp ghost"))
        if step.num_prompt_tokens:
            h = max(2.0, time.height * step.num_prompt_tokens / most)
            out.append(Mark(f"time.{i + 1}.p", (time.x_of(i), bottom - h, w, h), "cell sharp ink"))
    time.marks = out
    return time
