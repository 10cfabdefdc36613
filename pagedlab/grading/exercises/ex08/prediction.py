"""Part 08.4: the step in which memory runs out, predicted."""

from __future__ import annotations

import random
from typing import Any

from pagedlab.grading.exercises.ex08.facts import Facts, facts
from pagedlab.grading.part import Part, Property
from pagedlab.grading.plain import is_ints, same, show
from pagedlab.grading.tasks.values import values


def _cases(rng: random.Random, seed: int) -> list[dict]:
    return [{"seed": seed}]


def _of(wrong: Any) -> Any:
    def broken(case: dict, answer: dict) -> str | None:
        return wrong(answer, facts(case["seed"]))

    return broken


def _shape(answer: dict, truth: Facts) -> str | None:
    for name in ("victims", "served"):
        if type(answer[name]) is not list or any(type(who) is not str for who in answer[name]):
            return f"{name} is {show(answer[name])}"
    for name in ("again", "carried"):
        if not is_ints(answer[name]):
            return f"{name} is {show(answer[name])}"
    return None


def _how_many(answer: dict, truth: Facts) -> str | None:
    if len(answer["victims"]) == len(truth.victims):
        return None
    return f"you say that {len(answer['victims'])} make room, with {truth.puzzle.free} free blocks"


def _victims(answer: dict, truth: Facts) -> str | None:
    return None if same(answer["victims"], truth.victims) else f"your victims are {answer['victims']}"


def _served(answer: dict, truth: Facts) -> str | None:
    return None if same(answer["served"], truth.served) else f"you say that {answer['served']} get a token computed"


def _again(answer: dict, truth: Facts) -> str | None:
    return None if same(answer["again"], truth.again) else f"you say {answer['again']} tokens, for {truth.victims}"


def _carried(answer: dict, truth: Facts) -> str | None:
    if same(answer["carried"], truth.carried):
        return None
    return f"you say {answer['carried']} blocks, for {truth.victims}"


PREDICTION = Part(
    "08.4",
    "who makes room, who goes on, and what it will cost, predicted",
    2,
    ("victims", "served", "again", "carried"),
    _cases,
    values,
    (
        Property(
            "victims and served are lists of names, again and carried lists of numbers",
            _of(_shape),
            ('For example victims = ["E"], served = ["A", "B"], again = [14] and carried = [4].',),
        ),
        Property(
            "as many make room as are needed, and no more",
            _of(_how_many),
            (
                "Go through running from the left. Whose blocks are full, so that its waiting token needs a new one?",
                "Take a free block for each of these. When there is none, the last one gives all of its blocks back.",
            ),
        ),
        Property(
            "who was admitted last goes first",
            _of(_victims),
            ("The one who asks is not the one who goes, unless it is the last itself.",),
        ),
        Property(
            "all who are left get their token computed",
            _of(_served),
            ("With and without a new block, in order of admission. A victim gets nothing.",),
        ),
        Property(
            "a victim comes back with all its tokens as prompt",
            _of(_again),
            ("Prompt and generated tokens, the unwritten one too. Without a prefix cache nothing is found.",),
        ),
        Property(
            "a swap carries all blocks of a victim",
            _of(_carried),
            ("Those that it holds, full or not.",),
        ),
    ),
)
