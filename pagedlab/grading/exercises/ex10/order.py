"""Part 10.2: the calls of a step in the order in which they began."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from pagedlab.grading.exercises.ex10.facts import Facts, facts
from pagedlab.grading.part import Part, Property
from pagedlab.grading.plain import show
from pagedlab.grading.tasks.values import values


def _cases(rng: random.Random, seed: int) -> list[dict]:
    return [{"seed": seed}]


def _of(wrong: Any) -> Any:
    def broken(case: dict, answer: dict) -> str | None:
        return wrong(answer["order"], facts(case["seed"]))

    return broken


def _shape(answer: Any, truth: Facts) -> str | None:
    if type(answer) is list and all(type(x) is str for x in answer) and sorted(answer) == sorted(truth.order):
        return None
    return f"order is {show(answer)}"


def _among(*methods: str, about: str = "") -> Callable[[list[str], Facts], str | None]:
    """Whether the calls of these methods (and about this request, where one is named) come in the right order. Of the
    rest nothing is said."""

    def wrong(answer: list[str], truth: Facts) -> str | None:
        calls = truth.puzzle.calls

        def counts(letter: str) -> bool:
            return calls[letter].startswith(tuple(f"{method}(" for method in methods)) and about in calls[letter]

        right, mine = ([calls[x] for x in order if counts(x)] for order in (truth.order, answer))
        for expected, found in zip(right, mine, strict=True):
            if expected != found:
                letter = next(x for x in answer if calls[x] == found)
                return f"{letter} comes too early: {found}"
        return None

    return wrong


def _frame(answer: list[str], truth: Facts) -> str | None:
    """Whether schedule is the first call, and update_from_output comes behind all that was scheduled and before what
    becomes of it."""
    calls = [truth.puzzle.calls[letter] for letter in answer]
    if not calls[0].startswith("schedule("):
        return f"yours begins with {answer[0]}: {calls[0]}"
    end = next(i for i, call in enumerate(calls) if call.startswith("update_from_output("))
    for i, call in enumerate(calls):
        if i > end and call.startswith(("allocate_slots(", "get_computed_blocks(")):
            return f"{answer[end]} comes too early, before {answer[i]}: {call}"
        if i < end and call.startswith("free("):
            return f"{answer[end]} comes too late, behind {answer[i]}: {call}"
    return None


def _anywhere(answer: list[str], truth: Facts) -> str | None:
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
    _cases,
    values,
    (
        Property(
            "order is a list of all letters, each once",
            _of(_shape),
            ('For example order = ["d", "a", "c", …].',),
        ),
        Property(
            "the scheduler decides first, and takes in what was sampled when all that it decided is done",
            _of(_frame),
            (
                "A call comes before those that it makes. Which two are made by none of the others?",
                "Who has finished is known when its token was sampled: then its blocks are given back.",
            ),
        ),
        Property(
            "who runs is served before who waits, each in the order of the list",
            _of(_among("allocate_slots")),
            ("The moment above says who runs, and in which order. Each asks for room for its next tokens.",),
        ),
        Property(
            "a lookup goes through the hashes from the left, inside get_computed_blocks",
            _of(_among("get_computed_blocks", "get_cached_block", "allocate_slots", about="C")),
            ("Block 0 first, and it ends at the first that is not there. Only then room is asked for.",),
        ),
        Property(
            "inside allocate_slots, what was found is made safe before new blocks are taken",
            _of(_among("allocate_slots", "touch", "get_new_blocks")),
            (
                "Both are made for the newcomer: who else needs a block in this step?",
                "A found block may wait in the free queue, and could be handed out as a new one. Unless?",
            ),
        ),
        Property(
            "blocks get their hash last, once they belong to the request",
            _of(_among("allocate_slots", "touch", "get_new_blocks", "cache_full_blocks", "update_from_output")),
            (
                "Whose block is full after this step? Its request's allocate_slots names it, before it returns.",
                "A block has to be in the table before it can be named.",
            ),
        ),
        Property(
            "the blocks of who has finished are given back at the end",
            _of(_among("update_from_output", "free", "free_blocks", "cache_full_blocks")),
            ("free is the manager's, and what it does with the blocks is the pool's.",),
        ),
        Property(
            "the calls stand in the order in which they began",
            _of(_anywhere),
            ("Go through the step as the engine does, and put a call before those that it makes.",),
        ),
    ),
)
