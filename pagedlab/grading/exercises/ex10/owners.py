"""Part 10.1: whose method is each call of a step?"""

from __future__ import annotations

import random
from typing import Any

from pagedlab.grading.exercises.ex10.facts import Facts, facts
from pagedlab.grading.part import Part, Property
from pagedlab.grading.plain import show
from pagedlab.grading.tasks.ex10.story import MANAGER, POOL, SCHEDULER
from pagedlab.grading.tasks.values import values

WHO = (SCHEDULER, MANAGER, POOL)


def one_case(rng: random.Random, seed: int) -> list[dict]:
    return [{"seed": seed}]


def _of(wrong: Any) -> Any:
    def broken(case: dict, answer: Any) -> str | None:
        return wrong(answer["owner"], facts(case["seed"]))

    return broken


def _shape(answer: Any, truth: Facts) -> str | None:
    if type(answer) is not dict:
        return f"owner is {show(answer)}"
    missing = [letter for letter in truth.owners if letter not in answer]
    if missing:
        return f"nobody is named for {', '.join(missing)}"
    strange = next((letter for letter, who in answer.items() if letter not in truth.owners or who not in WHO), None)
    return None if strange is None else f"owner[{strange!r}] is {show(answer[strange])}"


def _wrong_of(who: str) -> Any:
    def wrong(answer: dict, truth: Facts) -> str | None:
        for letter, right in truth.owners.items():
            if answer[letter] == who and right != who:
                return f"{letter} is not the {who}'s: {truth.puzzle.calls[letter]}"
        return None

    return wrong


OWNERS = Part(
    "10.1",
    "who does what",
    2,
    ("owner",),
    one_case,
    values,
    (
        Property(
            'owner says "scheduler", "manager" or "pool" for every letter',
            _of(_shape),
            ('One entry for each letter: owner = {"a": "pool", "b": "manager", …}.',),
        ),
        Property(
            "the scheduler's are those that decide about all requests at once",
            _of(_wrong_of(SCHEDULER)),
            ("It asks others for blocks and never touches one.",),
        ),
        Property(
            "the manager's are those that speak of one request",
            _of(_wrong_of(MANAGER)),
            ("Its arguments are requests. It knows block tables.", "A call that names blocks or a hash is not its."),
        ),
        Property(
            "the pool's are those that speak of blocks and know no request",
            _of(_wrong_of(POOL)),
            ("Reference counts, the free queue, hashes: nothing else.",),
        ),
    ),
)
