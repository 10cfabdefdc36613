"""What a learner may predict before a step, and how it is answered: in a live lab, and on a page without a kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

SCORE = "Score {right} of {decided}."


class Question(NamedTuple):
    """What the next step answers. In ``reply`` and ``wrong`` stands "{guess}" for the name of what was pointed at.

    ``right``: the id of each mark that is a right answer -> what is said of it. ``of``: the ids that may be pointed at;
    empty: those of all askable marks.
    """

    ask: str
    reply: str
    right: Mapping[str, str]
    wrong: str
    of: Sequence[str] = ()

    def after(self, name: Any) -> str:
        """What is said of a guess until the step is taken."""
        return self.reply.replace("{guess}", str(name))

    def verdict(self, id: str, name: Any) -> str:
        """What is said of it then."""
        return self.right.get(id, self.wrong.replace("{guess}", str(name)))

    def for_page(self) -> dict[str, Any]:
        """As a saved page holds it; ``static/predicting.js`` reads it there."""
        return {"ask": self.ask, "reply": self.reply, "right": self.right, "wrong": self.wrong, "of": self.of}


def score(right: int, decided: int) -> str:
    return SCORE.format(right=right, decided=decided)
