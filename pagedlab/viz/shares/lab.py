"""The lab of shares: who gets how many tokens of a step."""

from __future__ import annotations

from typing import Any

from pagedlab.errors import PagedlabError
from pagedlab.trace import MemoryState
from pagedlab.viz.drivers import as_driver, recorded
from pagedlab.viz.kit.labels import names, plural
from pagedlab.viz.kit.marks import Mark
from pagedlab.viz.kit.predicting import Question, score
from pagedlab.viz.shares import layout
from pagedlab.viz.shares.run import expected, queue, to_compute
from pagedlab.viz.shares.steps import StepsLab


def token_budget(what: Any, *, step: int | None = None) -> ShareLab:
    """The lab of ``what``: an ``LLM(..., record=True)``, a driver, a ``Trace``, or the path of a saved one.

    ``step``: where to open (default: after the first step, which a live engine makes). Raises PagedlabError for what
    holds no trace of steps, and for a step that is not recorded.
    """
    return ShareLab(as_driver(what), step=step)


class ShareLab(StepsLab):
    """The lab. ``predict``: how many tokens of the request that is asked about the next step has."""

    NAME = "Token budget"
    AREAS = layout.AREAS

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.predictions: dict[int, tuple[str, int]] = {}  # the step that answers -> who, how many
        super().__init__(*args, **kwargs)

    # -------------------------------------------------------------------------------------------- for Python

    @property
    def score(self) -> tuple[int, int]:
        """Right predictions, and all that were decided."""
        decided = [step for step in self.predictions if step <= self._furthest]
        return sum(self._right(step) for step in decided), len(decided)

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

    def draw(self, scene: layout.Scene) -> list[Mark]:
        guess = self.predictions.get(self.position + 1)
        scene.question, scene.guess = self._offered(), guess[1] if guess else None
        return layout.marks(scene)

    def more_words(self) -> dict[str, str]:
        return {"verdict": self._verdict(), "question": self._question()}

    def stamp(self, position: int) -> Any:
        return super().stamp(position), self.predictions.get(position + 1)

    def text(self) -> str:
        """The shares for a terminal."""
        self.read_on_and_clear()
        step = self.scene().step
        lines = [self.title()]
        if step:
            short = names(self._cursor.state().requests)
            lines += [f"  {short[r]:>4}  {share.num_tokens:>6,}" for r, share in step.shares.items()]
        return "\n".join(lines)

    def for_export(self) -> ShareLab:
        return ShareLab(recorded(self.driver), step=self.position)

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
        if self.position >= self._history.num_steps:
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
        offer = self._open_question()
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
