"""Part 01.2: what every slot is good for."""

from __future__ import annotations

import random
from typing import Any

from pagedlab.grading.part import Part, Property
from pagedlab.grading.plain import is_ints, same, show
from pagedlab.grading.tasks.ex01 import probes

NAMES = ("token", "reserved", "internal", "external", "free")


def _cases(rng: random.Random, seed: int) -> list[dict]:
    # Always there: nobody waits; fits into a hole; enough in sum and no hole; just enough in sum; too little in sum.
    regions = [[8, 6, 2], [4, 4, 4]]
    cases = [
        {"regions": regions, "holes": [3, 5], "needs": None},
        {"regions": regions, "holes": [3, 5], "needs": 5},
        {"regions": regions, "holes": [3, 5], "needs": 6},
        {"regions": regions, "holes": [3, 5], "needs": 8},
        {"regions": regions, "holes": [3, 5], "needs": 9},
        {"regions": [], "holes": [7], "needs": None},
        {"regions": [[16, 9, 9]], "holes": [], "needs": 2},
    ]
    for i in range(30):
        made = []
        for _ in range(rng.randint(1, 2 + i // 6)):
            length = rng.randint(2, 30)
            needed = rng.randint(1, length)
            made.append([length, needed, rng.randint(1, needed)])
        holes = [rng.randint(1, 12) for _ in range(rng.randint(1, 4))]
        needs = rng.choice([None, rng.randint(1, 12), max(holes) + 1, sum(holes), sum(holes) + rng.randint(1, 3)])
        cases.append({"regions": made, "holes": holes, "needs": needs})
    return cases


def right(case: dict) -> list[int]:
    """token, reserved, internal, external, free."""
    token = sum(written for _, _, written in case["regions"])
    needed = sum(needed for _, needed, _ in case["regions"])
    held = sum(length for length, _, _ in case["regions"])
    holes, needs = case["holes"], case["needs"]
    lost = needs is not None and max(holes, default=0) < needs <= sum(holes)
    return [token, needed - token, held - needed, sum(holes) * lost, sum(holes) * (not lost)]


def _told(case: dict, answer: dict) -> str:
    regions = [tuple(region) for region in case["regions"]]
    return f"account({regions}, {case['holes']}, {case['needs']}) gave {show(answer['account'])}"


def _of(wrong: Any) -> Any:
    def broken(case: dict, answer: dict) -> str | None:
        return _told(case, answer) if wrong(case, answer["account"], right(case)) else None

    return broken


def _slots(case: dict) -> int:
    return sum(length for length, _, _ in case["regions"]) + sum(case["holes"])


def _entry(*which: int) -> Any:
    return _of(lambda case, given, expected: any(not same(given[i], expected[i]) for i in which))


def _lost_for_nothing(case: dict, given: list[int], expected: list[int]) -> bool:
    return expected[3] == 0 and given[3] != 0


ACCOUNT = Part(
    "01.2",
    "account says what every slot is good for",
    3,
    ("account",),
    _cases,
    probes.account,
    (
        Property(
            "account returns five whole numbers",
            _of(lambda case, given, expected: not is_ints(given) or len(given) != 5),
            ("In this order: " + ", ".join(NAMES) + ".",),
        ),
        Property(
            "a slot that is written holds a token",
            _entry(0),
            ("The third number of each region. Nothing that is free holds one.",),
        ),
        Property(
            "reserved slots are those that will be written, and are not yet",
            _entry(1),
            ("A region will hold `needed` tokens in the end. How many are still missing?",),
        ),
        Property(
            "internal slots are held and will never be written",
            _entry(2),
            ("How long is the region, and how much of it does the request need?",),
        ),
        Property(
            "nothing is external where nobody waits, where a hole is long enough, or where the sum is too small",
            _of(_lost_for_nothing),
            (
                "Three reasons why free slots are just free. Which one did you forget?",
                "Not enough in sum: then memory is simply full, and its shape is not to blame.",
            ),
        ),
        Property(
            "where the sum would do and no hole does, every free slot is external",
            _entry(3),
            ("None of the holes is of use to the one who waits, not even the longest.",),
        ),
        Property(
            "the five add up to all slots",
            _of(lambda case, given, expected: sum(given) != _slots(case) or not same(given, expected)),
            ("Free slots are external or free, never both.",),
        ),
    ),
    answered_by=("ContiguousMemory",),
)
