"""Part 10.2: the calls of a step in the order in which they began."""

from __future__ import annotations

from typing import Any

from pagedlab.grading.exercises.ex10.facts import Facts, facts
from pagedlab.grading.exercises.ex10.owners import one_case
from pagedlab.grading.part import Part, Property
from pagedlab.grading.plain import show
from pagedlab.grading.tasks.ex10.story import SCHEDULER
from pagedlab.grading.tasks.values import values


def _of(wrong: Any) -> Any:
    def broken(case: dict, answer: Any) -> str | None:
        return wrong(answer["order"], facts(case["seed"]))

    return broken


def _shape(answer: Any, truth: Facts) -> str | None:
    if type(answer) is list and all(type(x) is str for x in answer) and sorted(answer) == sorted(truth.order):
        return None
    return f"order is {show(answer)}"


def _scheduler(answer: list[str], truth: Facts) -> str | None:
    mine = [letter for letter in answer if truth.owners[letter] == SCHEDULER]
    right = [letter for letter in truth.order if truth.owners[letter] == SCHEDULER]
    if mine == right and answer[0] == right[0]:
        return None
    return f"yours begins with {answer[0]}: {truth.puzzle.calls[answer[0]]}"


def _rest(answer: list[str], truth: Facts) -> str | None:
    calls = truth.puzzle.calls
    for i, (mine, right) in enumerate(zip(answer, truth.order, strict=True)):
        if calls[mine] != calls[right]:
            return f"call number {i + 1} is not {mine}: {calls[mine]}"
    return None


ORDER = Part(
    "10.2",
    "in which order",
    2,
    ("order",),
    one_case,
    values,
    (
        Property(
            "order is a list of all letters, each once",
            _of(_shape),
            ('For example order = ["d", "a", "c", …].',),
        ),
        Property(
            "a step begins and ends with the scheduler: first it decides, then it takes in what was sampled",
            _of(_scheduler),
            ("A call comes before the calls that it makes.",),
        ),
        Property(
            "the calls stand in the order in which they began",
            _of(_rest),
            (
                "Who runs is served before who waits, each in the order of the list.",
                "Before a newcomer gets blocks, somebody looks for those that are there already, hash by hash.",
                "Hits are made safe before new blocks are taken. What gets full is named last.",
            ),
        ),
    ),
)
