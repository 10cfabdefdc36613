"""The lab of one question that gets several answers: a row of tokens for each run, and where it leaves the first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pagedlab.errors import PagedlabError
from pagedlab.viz.apart import layout
from pagedlab.viz.apart.answers import answers
from pagedlab.viz.drivers import as_driver
from pagedlab.viz.kit.badge import badge_text
from pagedlab.viz.kit.labels import listed, quoted
from pagedlab.viz.kit.model import View
from pagedlab.viz.kit.predicting import Question, score
from pagedlab.viz.kit.strip import Strip
from pagedlab.viz.kit.widget import Lab

MOST = 8  # rows


def flips(runs: Mapping[str, Any], request: str = "A", *, step: int | None = None) -> FlipsLab:
    """The lab of one request in several runs. ``runs``: name → an ``LLM(..., record=True)``, a ``Trace``, or the path
    of a saved one; the first is what the others are held against. ``step``: how many tokens to show; default: to just
    before the first that differs.

    Raises PagedlabError for fewer than two runs or more than eight, and for a request that some run did not answer.
    """
    if not isinstance(runs, Mapping) or not 2 <= len(runs) <= MOST:
        raise PagedlabError(f"flips takes a dict of 2 to {MOST} runs, name → run; given: {str(runs)[:80]}.")
    traces = {str(name): as_driver(run).trace for name, run in runs.items()}
    headers = [trace.header for trace in traces.values()]
    badge = badge_text(headers[0], live=all(hasattr(run, "trace") and hasattr(run, "step") for run in runs.values()))
    return FlipsLab(answers(traces, request), badge, step)


class FlipsLab(Lab):
    """The lab. A step is one more token of each answer."""

    NAME = "Flips"

    def __init__(self, found: list, badge: str, step: int | None = None) -> None:
        self.answers, self.badge = found, badge
        self.SIZE, self.AREAS = layout.size(len(found)), layout.areas(len(found))
        first = min((a.flip for a in found if a.flip is not None), default=self.num_steps)
        self.move(first if step is None else step)
        self._furthest = self.position
        self.guesses: dict[int, int] = {}  # token → the row that was pointed at for it
        super().__init__()

    @property
    def num_steps(self) -> int:
        """Tokens of the longest answer."""
        return max(len(answer.tokens) for answer in self.answers)

    @property
    def score(self) -> tuple[int, int]:
        """Right predictions, and all that were decided."""
        decided = [row in self._leaving(token) for token, row in self.guesses.items() if token < self._furthest]
        return sum(decided), len(decided)

    def _leaving(self, token: int) -> list[int]:
        """The rows that leave the first one at this token, or the first row itself where none does."""
        return [row for row, answer in enumerate(self.answers) if answer.flip == token] or [0]

    def name_of(self, id: str) -> str:
        return f"“{self.answers[int(id.rpartition('.')[2])].name}”"

    def asks(self) -> list[Question]:
        return [self._question(self.position)] if self.position < self.num_steps else []

    def _question(self, token: int) -> Question:
        leaving = self._leaving(token)
        names = listed(f"“{self.answers[row].name}”" for row in leaving)
        what = "all go on as they did" if leaving == [0] else f"{names} got another token"
        return Question(
            "Which run gets another token next? Click its name; click the first for “none”.",
            "You say {guess}.",
            {f"run.{row}": f"✓ Right: {what}." for row in leaving},
            f"You said {{guess}}; {what}.",
        )

    def point(self, id: str) -> None:
        self.predict(int(id.rpartition(".")[2]))

    def predict(self, row: int) -> None:
        """Say which run's next token is the first that differs (0: none). Raises PagedlabError where it was seen."""
        if not 0 <= row < len(self.answers):
            raise PagedlabError(f"There is no run {row}; there are 0 to {len(self.answers) - 1}.")
        if self.position < self._furthest or self.position >= self.num_steps:
            raise PagedlabError("There is nothing to predict here: go to the last token that was seen.")
        self.guesses[self.position] = row
        self.show()

    def for_export(self) -> FlipsLab:
        """Without the guesses."""
        return FlipsLab(self.answers, self.badge, self.position)

    def view(self) -> View:
        self._furthest = max(self._furthest, self.position)
        verdict = question = ""
        if (row := self.guesses.get(self.position - 1)) is not None:
            last = self._question(self.position - 1)
            verdict = f"{last.verdict(f'run.{row}', self.name_of(f'run.{row}'))} {score(*self.score)}"
        for open_question in self.asks():
            row = self.guesses.get(self.position)
            question = open_question.ask if row is None else open_question.after(self.name_of(f"run.{row}"))
        words = {"next": "Next token", "verdict": verdict, "question": question, "over": "The answers end here"}
        marks = layout.marks(self.answers, self.position, self.badge, self.guesses.get(self.position))
        return View(marks, f"Flips, token {self.position}. {layout.sentences(self.answers, self.position)[0]}", words)

    def strip(self) -> Strip:
        return layout.strip(self.answers, self.num_steps)

    def text(self) -> str:
        """The rows for a terminal."""
        lines = [layout.sentences(self.answers, self.position)[0], self.badge]
        for answer in self.answers:
            where = "the same" if answer.flip is None else f"another from token {answer.flip + 1} on"
            shown = "".join(text for _, text in answer.tokens[: self.position])
            lines.append(f"  {answer.name:<24} {quoted(shown)}  ({where})")
        return "\n".join(lines)
