"""The preemption lab: memory runs out, twice. One workload, two runs: a victim's tokens computed again, or its blocks
carried to the CPU and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pagedlab.errors import PagedlabError, whole
from pagedlab.trace import MemoryState, Trace, TraceDriver
from pagedlab.trace import events as ev
from pagedlab.viz.drivers import recorded, with_one_table
from pagedlab.viz.kit import panes
from pagedlab.viz.kit.badge import badge_text
from pagedlab.viz.kit.cursor import Cursor
from pagedlab.viz.kit.labels import names, plural
from pagedlab.viz.kit.model import View
from pagedlab.viz.kit.panes import Part
from pagedlab.viz.kit.predicting import Question, score
from pagedlab.viz.kit.scene import Scene
from pagedlab.viz.kit.strip import Strip, columns
from pagedlab.viz.kit.widget import Lab
from pagedlab.viz.victims import layout, words
from pagedlab.viz.victims.run import PreemptionHistory, is_short


def preemption(left: Any, right: Any, *, select: str | None = None, step: int | None = None) -> PreemptionLab:
    """The lab of two runs of one workload: each an ``LLM(..., record=True)``, a driver, a ``Trace``, or the path of a
    saved one. Made for V1 beside ``era="paper", preemption="swap"``; ``pagedlab.bench.preemption.overload`` makes both.
    For a vLLM that is watched, ``pagedlab.parity.twin`` makes the other.

    Both are stepped together; the one that is over first stays at its end. ``select``: whose blocks stand out;
    ``step``: where to open (default: the first step in which somebody makes room, where that is recorded, else the
    first). Raises PagedlabError for runs that do not serve the same requests, and for what holds no trace.
    """
    return PreemptionLab([with_one_table(left), with_one_table(right)], select=select, step=step)


def _side(side: Any) -> int:
    if whole(side, "side") not in (0, 1):
        raise PagedlabError(f"side is {side}; 0 is the left run, 1 the right one.")
    return int(side)


class PreemptionLab(Lab):
    """The lab. ``drivers``: a cursor over each run; ``histories``: what was read of each; ``price(side)``: the bill at
    the cursor."""

    NAME = "Preemption"
    SIZE = layout.SIZE
    AREAS = layout.AREAS

    def __init__(self, drivers: list[TraceDriver], *, select: str | None = None, step: int | None = None) -> None:
        self.drivers = drivers
        self.histories = [PreemptionHistory(driver.trace) for driver in drivers]
        self.predictions: dict[tuple[int, int], str] = {}  # (side, the step that answers) -> request
        self._cursors = [Cursor(d, h) for d, h in zip(drivers, self.histories, strict=True)]
        self.read_on()
        self._check()
        step = None if step is None else whole(step, "step", 0)
        if select is not None:
            self.choose(select)
        self._open(step)
        self._furthest = self.position
        self.choose(self._who() if select is None else select)
        super().__init__()

    def rewind(self) -> None:
        self.move(self._first())

    def _first(self) -> int:
        """The step in which somebody has to make room first; else the last."""
        return min((a.step for history in self.histories for a in history.aways), default=self.num_steps)

    def _open(self, step: int | None) -> None:
        """Go to the step to look at first. An engine that has not come so far runs; where its run ends before,
        PagedlabError says how long it is, and ours is as it was. (A vLLM that is watched cannot be set back.)"""
        ahead = step is not None and step > self.num_steps
        before = [(d, d.position, d.llm.snapshot()) for d in self.drivers if ahead and d.can_edit]
        self._move(1 if self.num_steps == 0 else self.num_steps)  # both engines stand at the same step
        self.read_on()
        self._move(self._first() if step is None else step)
        if step is not None and step > self.num_steps:
            last = self.num_steps
            for driver, position, snapshot in before:
                driver.llm.restore(snapshot)
                driver.position = position
            raise PagedlabError(f"There is no step {step}; the runs have steps 0 to {last}.")

    # -------------------------------------------------------------------------------------------- for Python

    @property
    def position(self) -> int:
        """How many steps are finished at the cursor (of the longer run)."""
        return max(driver.position for driver in self.drivers)

    @property
    def num_steps(self) -> int:
        return max(driver.num_steps for driver in self.drivers)

    @property
    def can_step(self) -> bool:
        return any(driver.can_step for driver in self.drivers)

    @property
    def live(self) -> bool:
        """Is there an engine behind each run?"""
        return all(cursor.live for cursor in self._cursors)

    @property
    def shares(self) -> Trace:
        return self.drivers[0].trace

    @property
    def states(self) -> list[MemoryState]:
        """Memory of both runs at the cursor, not to be changed."""
        return [cursor.state() for cursor in self._cursors]

    def price(self, side: int) -> Any:
        """What the preemptions of one run (0: left) came to, at the cursor: see ``preemption_run.Price``."""
        return self.histories[_side(side)].price(self.position)

    @property
    def run_names(self) -> list[str]:
        """By what becomes of a victim; else by whose engine it is; else by the side."""
        headers = [driver.trace.header for driver in self.drivers]
        for found in ([*map(words.run_name, headers)], [*map(words.engine_name, headers)]):
            if found[0] != found[1]:
                return found
        return ["left", "right"]

    @property
    def score(self) -> tuple[int, int]:
        """Right predictions, and all that were decided."""
        decided = [self._right(side, step) for side, step in self.predictions if step <= self._furthest]
        return sum(decided), len(decided)

    def predict(self, request_id: str, side: int = 0) -> None:
        """Say who makes room in the next step (``side`` 0: left). Raises PagedlabError where memory is not short there,
        or the request does not run."""
        if not self._asking(_side(side)):
            raise PagedlabError("There is nothing to predict here: memory suffices for the next step, or it was seen.")
        running = self._cursors[side].state().running
        if request_id not in running:
            raise PagedlabError(f"Request {request_id!r} does not run there; running are: {', '.join(running)}.")
        self.predictions[side, self.position + 1] = request_id
        self.show()

    # ------------------------------------------------------------------------------------------ the picture

    def choose(self, selected: str | None) -> None:
        known = self._requests()
        if selected is not None and selected not in list(known):
            raise PagedlabError(f"There is no request {selected!r} in these runs; there are: {', '.join(known)}.")
        self.selected = selected

    def selections(self) -> list[str | None]:
        return list(self._requests()) or [None]

    def move(self, position: int) -> None:
        self._move(position)
        self.read_on_and_clear()

    def _move(self, position: int) -> None:
        """Each engine runs as far as it is needed and can."""
        position = max(0, position)
        for driver in self.drivers:
            driver.seek(min(position, driver.num_steps))
            while driver.position < position and driver.can_step:
                driver.step()

    def read_on(self) -> bool:
        changed = [cursor.read_on() for cursor in self._cursors]
        if any(changed):
            self._furthest = 0
        return any(changed)

    def grown(self) -> bool:
        return any(cursor.grown for cursor in self._cursors)

    def stamp(self, position: int) -> Any:
        guesses = [self.predictions.get((side, position + 1)) for side in (0, 1)]  # drawn whoever is selected
        return guesses + [driver.num_events(min(position, driver.num_steps)) for driver in self.drivers]

    def view(self) -> View:
        self._furthest = max(self._furthest, self.position)
        scene = self._scene()
        title = layout.title(scene)
        stories = [
            f"{name}: {' '.join(words.story(history, memory.events, scene.step))}"
            for name, history, memory in zip(scene.names, self.histories, scene.memory, strict=True)
        ]
        texts = {
            "next": "Run one step",
            "verdict": self._verdict(),
            "question": self._question(),
            "say": " ".join([title + ".", *stories]),
            "over": "All requests are done" if self.live else "End of the recordings",
        }
        return View(layout.marks(scene), title, texts)

    def strip(self) -> Strip:
        return layout.chart(self.histories, self.run_names, columns(self.num_steps, self.live))

    def text(self) -> str:
        """The bill for a terminal."""
        self.read_on_and_clear()
        lines = [self.title(), f"{'':<22}" + "".join(f"{name:>18}" for name in self.run_names)]
        prices = [self.price(side) for side in (0, 1)]
        moved = [words.amount(p.carried * h.bytes_per_block) for p, h in zip(prices, self.histories, strict=True)]
        for label, values in (
            ("preemptions", [p.preemptions for p in prices]),
            ("tokens computed again", [p.recomputed for p in prices]),
            ("tokens found in cache", [p.found for p in prices]),
            ("bytes carried", moved),
            ("steps", [p.steps for p in prices]),
        ):
            lines.append(f"{label:<22}" + "".join(f"{value!s:>18}" for value in values))
        return "\n".join(lines)

    def panes(self) -> dict[str, str]:
        return {"victims": "Each victim"}

    def pane(self, id: str) -> list[Part]:
        rows = []
        for name, history in zip(self.run_names, self.histories, strict=True):
            short = names(history.state.requests)
            for away in history.aways:
                if away.step > self.position:
                    continue
                back = away.back if away.back is not None and away.back <= self.position else None
                for_whom = "itself" if away.trigger == away.request_id else short.get(away.trigger, "–")
                again = sum(n for step, n in away.recomputed.items() if step <= self.position)
                moved = sum(n for step, n in away.carried.items() if step <= self.position)
                gave = f"{away.num_blocks} ({away.num_tokens} tokens)"
                bill = [away.found if back else "", again, words.amount(moved * history.bytes_per_block)]
                rows.append([name, away.step, short[away.request_id], for_whom, gave, back or "not yet", *bill])
        if not rows:
            return [panes.text("Nobody has had to make room yet.")]
        head = ["run", "step", "victim", "room for", "blocks", "back in step", "found", "computed again", "carried"]
        return [panes.table(head, rows)]

    def point(self, id: str) -> None:
        """Somebody who runs was clicked."""
        number, side = id.removeprefix("who.").split(".")[:2]
        self.predict(list(self._requests())[int(number)], int(side))

    def for_export(self) -> PreemptionLab:
        return PreemptionLab([recorded(driver) for driver in self.drivers], select=self.selected, step=self.position)

    # ------------------------------------------------------------------------------------------------ the runs

    def _requests(self) -> dict[str, Any]:
        return self.histories[0].state.requests | self.histories[1].state.requests

    def _check(self) -> None:
        requests = [h.state.requests for h in self.histories]
        prompts = [{r: s.token_ids[: s.num_prompt_tokens] for r, s in of.items()} for of in requests]
        if prompts[0] != prompts[1]:
            raise PagedlabError(
                f"The two runs do not serve the same requests: {plural(len(prompts[0]), 'request')} left, "
                f"{len(prompts[1])} right, or their prompts differ. Queue the same prompts in both."
            )
        if len(prompts[0]) > layout.MOST_REQUESTS:
            raise PagedlabError(
                f"The lab shows at most {layout.MOST_REQUESTS} requests; these runs have {len(prompts[0])}."
            )
        if any(h.trace.header["config"].get("era") == "contiguous" for h in self.histories):
            raise PagedlabError("The lab shows runs with blocks; one of these reserves slots in one piece.")

    def _who(self) -> str | None:
        """The first victim, where there is one by now; else who would be it: the one admitted last."""
        for history in self.histories:
            if history.aways:
                return history.aways[0].request_id
        running = self.histories[0].state.running
        return running[-1] if running else next(iter(self._requests()), None)

    def _events(self, side: int) -> list[ev.Event]:
        """What happened in the step that led to the cursor; nothing where this run was over before."""
        position = self.drivers[side].position
        return self._cursors[side].events() if 0 < position == self.position else []

    def _scene(self) -> layout.Scene:
        memory = []
        for side, driver in enumerate(self.drivers):
            state = self._cursors[side].state()
            selected = self.selected if self.selected in state.requests else None
            header = driver.trace.header
            memory.append(
                Scene(state, self._events(side), header, selected, driver.position, driver.position, self.live)
            )
        badges = list(dict.fromkeys(badge_text(driver.trace.header, self.live) for driver in self.drivers))
        guesses = [self.predictions.get((side, self.position + 1)) for side in (0, 1)]
        return layout.Scene(
            memory, self.histories, self.run_names, self.position, self.selected, " | ".join(badges), self.live,
            self._short(), guesses,
        )  # fmt: skip

    def _short(self) -> list[bool]:
        """In which runs will the next step have to throw somebody out?"""
        return [d.position == self.position and is_short(s) for d, s in zip(self.drivers, self.states, strict=True)]

    def _asking(self, side: int) -> bool:
        return self.position >= self._furthest and self.drivers[side].can_step and self._short()[side]

    def _victims(self, side: int, step: int) -> list[str]:
        return [away.request_id for away in words.went(self.histories[side], step)]

    def _right(self, side: int, step: int) -> bool:
        return self.predictions[side, step] in self._victims(side, step)

    def asks(self) -> list[Question]:
        short = [
            side
            for side, driver in enumerate(self.drivers)
            if driver.position == self.position < driver.num_steps and is_short(self.states[side])
        ]
        return [self._question_at(side, self.position + 1, short) for side in short]

    def name_of(self, id: str) -> str:
        return list(self._requests())[int(id.split(".")[1])]

    def _question_at(self, side: int, step: int, sides: Sequence[int] = (0, 1)) -> Question:
        """Who makes room in that step of a run? ``sides``: in which runs it is asked."""
        name, requests = self.run_names[side], list(self._requests())
        where = "" if len(sides) == 2 else f" ({name})"
        victims = self._victims(side, step)
        made_room = f"{' and '.join(victims)} made room: admitted last." if victims else "nobody made room."
        return Question(
            f"Memory is short{where}. Who makes room? Click in RUNS.",
            f"You say {{guess}} ({name}). Take the step and see.",
            {f"who.{requests.index(r)}.{side}": f"✓ {r} made room: admitted last." for r in victims},
            f"You said {{guess}}; {made_room}",
            [f"who.{i}.{side}" for i in range(len(requests))],
        )

    def _question(self) -> str:
        sides = [side for side in (0, 1) if self._asking(side)]
        guesses = {side: self.predictions.get((side, self.position + 1)) for side in sides}
        questions = {side: self._question_at(side, self.position + 1, sides) for side in sides}
        replies = [questions[side].after(guess) for side, guess in guesses.items() if guess]
        return " ".join(replies or dict.fromkeys(one.ask for one in questions.values()))

    def _verdict(self) -> str:
        verdicts = []
        for side in (0, 1):
            guess = self.predictions.get((side, self.position))
            if guess is None:
                continue
            id = f"who.{list(self._requests()).index(guess)}.{side}"
            verdicts.append(self._question_at(side, self.position).verdict(id, guess))
        if verdicts:
            return " ".join([*verdicts, score(*self.score)])
        if rule := words.rule(self.histories, self.run_names, self.position):
            return rule
        runs = any(state.running for state in self.states)
        return "All who run have room in the next step." if runs and not any(self._short()) else ""
