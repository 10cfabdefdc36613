"""The lab of shares: who gets how many tokens of a step, and what is planned while the step before runs."""

from __future__ import annotations

from typing import Any

from pagedlab.errors import PagedlabError, whole
from pagedlab.trace import MemoryState, TraceDriver
from pagedlab.viz.drivers import as_driver, recorded
from pagedlab.viz.kit.badge import badge_text
from pagedlab.viz.kit.driver_lab import DriverLab
from pagedlab.viz.kit.labels import names, plural
from pagedlab.viz.kit.model import View
from pagedlab.viz.kit.predicting import Question, score
from pagedlab.viz.kit.strip import Strip, columns
from pagedlab.viz.shares import lanes, layout, words
from pagedlab.viz.shares.run import ShareHistory, expected, queue, to_compute


def token_budget(what: Any, *, step: int | None = None, view: str = "step") -> ShareLab:
    """The lab of ``what``: an ``LLM(..., record=True)``, a driver, a ``Trace``, or the path of a saved one.

    ``step``: where to open (default: after the first step, which a live engine makes). ``view``: "step", the step as a
    bar of tokens, or "lanes", what is planned while what runs. Raises PagedlabError for what holds no trace of steps,
    a step that is not recorded, and another view.
    """
    return ShareLab(as_driver(what), step=step, view=view)


class ShareLab(DriverLab):
    """The lab. ``predict``: how many tokens of the request that is asked about the next step has."""

    NAME = "Token budget"
    SIZE = layout.SIZE
    AREAS = layout.AREAS

    def __init__(self, driver: TraceDriver, *, step: int | None = None, view: str = "step") -> None:
        config = driver.trace.header["config"]
        if config.get("era") == "contiguous" or "attached" in driver.trace.header:
            raise PagedlabError("The lab shows the steps of an engine with blocks; this run tells of no such steps.")
        self.follow(driver, ShareHistory)
        self.predictions: dict[int, tuple[str, int]] = {}  # the step that answers -> who, how many
        if step is not None:
            driver.seek(whole(step, "step", 0))
        elif driver.position == 0:
            driver.step()
        self.read_on()
        self._furthest = driver.position
        self.choose(view)
        super().__init__()

    # -------------------------------------------------------------------------------------------- for Python

    @property
    def budget(self) -> int | None:
        """``max_num_batched_tokens`` of the run; None where its header does not tell."""
        return self.trace.header["config"].get("max_num_batched_tokens")

    @property
    def score(self) -> tuple[int, int]:
        """Right predictions, and all that were decided."""
        decided = [step for step in self.predictions if step <= self._furthest]
        return sum(self._right(step) for step in decided), len(decided)

    def shares(self, step: int) -> dict[str, int]:
        """Tokens by request of a known step, in scheduling order. Raises PagedlabError for another."""
        if not 1 <= whole(step, "step") <= self.num_steps:
            raise PagedlabError(f"There is no step {step}; known are 1 to {self.num_steps}.")
        self.read_on_and_clear()
        return {r: share.num_tokens for r, share in self._history.steps[step - 1].shares.items()}

    def predict(self, num_tokens: int) -> None:
        """Say how many tokens of the request that is asked about are in the next step. Raises PagedlabError where
        nobody is asked about, and for a number that is not offered."""
        offer = self._open_question()
        if offer is None:
            raise PagedlabError("There is nothing to predict here: everybody has one token, or the step was seen.")
        if num_tokens not in offer[1]:
            raise PagedlabError(f"{num_tokens} is not offered; there are: {', '.join(map(str, offer[1]))}.")
        self.predictions[self.position + 1] = (offer[0], int(num_tokens))
        self.show()

    # ------------------------------------------------------------------------------------------ the picture

    def choose(self, selected: str | None) -> None:
        if selected is not None and selected not in layout.VIEWS:
            raise PagedlabError(f"There is no view {selected!r}; there are: {', '.join(layout.VIEWS)}.")
        self.selected = selected or "step"

    def selections(self) -> list[str | None]:
        return list(layout.VIEWS)

    def read_on(self) -> bool:
        if not super().read_on():
            return False
        self._furthest = 0
        return True

    def stamp(self, position: int) -> Any:
        return self.driver.num_events(position), self.predictions.get(position + 1), self._history.largest

    def view(self) -> View:
        self._furthest = max(self._furthest, self.position)
        scene = self._scene()
        title = f"Token budget, step {self.position}. {words.headlines(scene.step, scene.names, scene.budget)[0]}"
        texts = {
            "next": "Run one step",
            "verdict": self._verdict(),
            "question": self._question(),
            "say": " ".join([f"{title}.", *words.story(scene.step, scene.names)]),
            "over": "All requests are done" if self.live else "End of the recording",
        }
        draw = lanes.marks if self.selected == "lanes" else layout.marks
        return View(draw(scene), title, texts)

    def strip(self) -> Strip:
        return layout.strip(self._history.steps, columns(self.num_steps, self.live))

    def text(self) -> str:
        """The shares for a terminal."""
        self.read_on_and_clear()
        step = self._scene().step
        lines = [self.title()]
        if step:
            short = names(self._cursor.state().requests)
            lines += [f"  {short[r]:>4}  {share.num_tokens:>6,}" for r, share in step.shares.items()]
        return "\n".join(lines)

    def for_export(self) -> ShareLab:
        return ShareLab(recorded(self.driver), step=self.position, view=self.selected)

    def _scene(self) -> layout.Scene:
        badge = badge_text(self.trace.header, self.live)
        steps = self._history.steps[: self.position]
        guess = self.predictions.get(self.position + 1)
        return layout.Scene(
            self._cursor.state(), self.trace.header, steps, self._history.largest, self.selected, badge, self.live,
            self._history.ahead, self._offered(), guess[1] if guess else None,
        )  # fmt: skip

    # ------------------------------------------------------------------------------------------ predictions

    def _subject(self, state: MemoryState) -> str | None:
        """Who is asked about: the first that has more than one token to compute."""
        return next((r for r in queue(state) if to_compute(state, r, self._history.ahead) > 1), None)

    def _open_question(self) -> tuple[str, list[int]] | None:
        if self.position < self._furthest or not self.can_step:
            return None
        return self._offered()

    def _offered(self) -> tuple[str, list[int]] | None:
        """Who is asked about at the cursor, and numbers to choose from: what is left of the budget, all of it, an equal
        part, all that it has to compute, one and none."""
        state, ahead = self._cursor.state(), self._history.ahead
        who, budget = self._subject(state), self.budget
        if who is None or budget is None:
            return None
        todo = to_compute(state, who, ahead)
        equal = budget // len(queue(state))
        offered = {0, 1, expected(state, budget, ahead)[who], min(budget, todo), todo, min(equal, todo)}
        return who, sorted(offered)

    def _actual(self, step: int, who: str) -> int:
        share = self._history.steps[step - 1].shares.get(who)
        return share.num_tokens if share else 0

    def _right(self, step: int) -> bool:
        who, guess = self.predictions[step]
        return self._actual(step, who) == guess

    def asks(self) -> list[Question]:
        if self.selected != "step" or self.position >= self._history.num_steps:
            return []
        offered = self._offered()
        return [self._question_at(self.position + 1, *offered)] if offered else []

    def name_of(self, id: str) -> str:
        return f"{int(id.split('.')[1]):,}"

    def _question_at(self, step: int, who: str, answers: list[int]) -> Question:
        name, known = names(self._history.state.requests)[who], step <= self._history.num_steps
        actual = self._actual(step, who) if known else 0
        truth = f"{plural(actual, 'token')} of {name} ran in step {step}"
        return Question(
            f"How many tokens of {name} are in the next step? Click a number.",
            f"You say {{guess}} of {name}. Take the step and see.",
            {f"answer.{actual}": f"✓ {truth}."} if known else {},
            f"You said {{guess}}; {truth}.",
            [f"answer.{n}" for n in answers],
        )

    def _question(self) -> str:
        offer = self._open_question() if self.selected == "step" else None
        if offer is None:
            return ""
        question, guess = self._question_at(self.position + 1, *offer), self.predictions.get(self.position + 1)
        return question.after(f"{guess[1]:,}") if guess else question.ask

    def _verdict(self) -> str:
        guess = self.predictions.get(self.position)
        if guess is None:
            return ""
        verdict = self._question_at(self.position, guess[0], []).verdict(f"answer.{guess[1]}", f"{guess[1]:,}")
        return f"{verdict} {score(*self.score)}"

    def point(self, id: str) -> None:
        self.predict(int(id.split(".")[1]))
