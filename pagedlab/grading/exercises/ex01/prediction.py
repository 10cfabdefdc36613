"""Part 01.3: one step of a contiguous memory, predicted."""

from __future__ import annotations

import random
from typing import Any

from pagedlab.grading.exercises.ex01.account import NAMES
from pagedlab.grading.exercises.ex01.facts import Facts, facts
from pagedlab.grading.part import Part, Property
from pagedlab.grading.plain import is_int, is_ints, same, show
from pagedlab.grading.tasks.ex01 import probes
from pagedlab.grading.tasks.ex01.story import NUM_SLOTS


def _cases(rng: random.Random, seed: int) -> list[dict]:
    return [{"seed": seed}]


def _of(wrong: Any) -> Any:
    def broken(case: dict, answer: dict) -> str | None:
        return wrong(answer["starts"], answer["account_after"], facts(case["seed"]))

    return broken


def _shape(starts: Any, account: Any, truth: Facts) -> str | None:
    answer_text = f"starts is {show(starts)} and account_after is {show(account)}"
    if type(starts) is not list or not all(one is None or is_int(one) for one in starts):
        return answer_text
    return None if len(starts) == 3 and is_ints(account) and len(account) == 5 else answer_text


def _in_turn(starts: list, account: list[int], truth: Facts) -> str | None:
    came = [one is not None for one in starts]
    return None if came == sorted(came, reverse=True) else f"starts is {starts}: somebody overtakes somebody"


def _who(starts: list, account: list[int], truth: Facts) -> str | None:
    same_ones = [one is None for one in starts] == [one is None for one in truth.starts]
    return None if same_ones else f"starts is {starts}"


def _where(starts: list, account: list[int], truth: Facts) -> str | None:
    return None if same(starts, truth.starts) else f"starts is {starts}"


def _total(starts: list, account: list[int], truth: Facts) -> str | None:
    total = sum(account)
    return None if total == NUM_SLOTS else f"your five numbers add up to {total}; there are {NUM_SLOTS} slots"


def _count(which: int) -> Any:
    def wrong(starts: list, account: list[int], truth: Facts) -> str | None:
        if same(account[which], truth.account[which]):
            return None
        return f"account_after is {account}; look at its entry {which}, {NAMES[which]}"

    return wrong


PREDICTION = Part(
    "01.3",
    "a step under load, predicted",
    2,
    ("starts", "account_after"),
    _cases,
    probes.prediction,
    (
        Property(
            "starts has an entry for each of the three who wait, account_after has five numbers",
            _of(_shape),
            ("For example starts = [4, None, None] and account_after = [20, 4, 8, 0, 16].",),
        ),
        Property("first come, first served", _of(_in_turn), ("Who does not fit keeps all those behind it waiting.",)),
        Property(
            "those come in who find a hole, until the first one that does not",
            _of(_who),
            (
                "Which slots are free? Write down the holes and their lengths.",
                "The first one that comes in makes a hole shorter. Look again before the next.",
            ),
        ),
        Property(
            "each begins at the start of the first hole that is long enough",
            _of(_where),
            ("What has to fit is the reserved length, not what the request will need.",),
        ),
        Property(
            "every slot is counted once", _of(_total), ("Regions and holes together are the whole strip.",)
        ),
        Property(
            "the written tokens are those from before, one more for each that was running, and the new prompts",
            _of(_count(0)),
            (
                "Each running request writes the token that it sampled last.",
                "Who comes in writes its whole prompt in this step.",
            ),
        ),
        Property(
            "reserved is what the requests in memory will still write",
            _of(_count(1)),
            ("For each: what it will need, minus what is written after this step.",),
        ),
        Property(
            "internal is what they hold beyond what they will need",
            _of(_count(2)),
            ("The newcomers hold regions too.",),
        ),
        Property(
            "the free slots are external or free, by who waits after the step",
            _of(lambda *args: _count(3)(*args) or _count(4)(*args)),
            ("Is there enough in sum for the first one that did not come in?",),
        ),
    ),
)
