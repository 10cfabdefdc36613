"""What happens in the step that exercise 10 asks about."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from pagedlab.grading.tasks.ex10.story import Puzzle, before, calls_of_a_step, puzzle_of, story
from pagedlab.grading.tasks.small_model import on_one_core, small_model


@dataclass(frozen=True)
class Facts:
    """The answer: the letters in the order in which the calls began. Where two calls read the same, either may stand
    for the other."""

    puzzle: Puzzle
    order: list[str]


@lru_cache(maxsize=64)
def facts(seed: int) -> Facts:
    """Run the step on the small random model."""
    with on_one_core():
        llm = story(seed, small_model())
        moment = before(llm)
        calls = calls_of_a_step(llm)
    question = puzzle_of(moment, calls)
    letters = dict(question.calls)
    order = []
    for call in calls:
        order.append(next(letter for letter, text in letters.items() if text == call.text))
        del letters[order[-1]]
    return Facts(question, order)
