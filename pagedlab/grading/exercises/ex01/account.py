"""Part 01.2: what every slot is good for."""

from __future__ import annotations

import random
from typing import Any

from pagedlab.grading.draws import twice
from pagedlab.grading.part import Part, Property
from pagedlab.grading.plain import is_ints, same, show
from pagedlab.grading.tasks.ex01 import probes

NAMES = ("token", "reserved", "internal", "external", "free")


def _cases(rng: random.Random, seed: int) -> list[dict]:
    # Always there: nobody waits; fits into a hole, just or with room; enough in sum and no hole; just enough in sum;
    # too little in sum; no region; no hole; and of each number one that no other number can stand for.
    regions = [[8, 6, 2], [4, 4, 4]]
    cases = [{"regions": regions, "holes": [3, 5], "needs": needs} for needs in (None, 5, 6, 8, 9, 2)]
    cases += [
        {"regions": [], "holes": [7], "needs": None},
        {"regions": [[16, 9, 9]], "holes": [], "needs": 2},
        {"regions": [[16, 9, 9]], "holes": [], "needs": None},
        {"regions": [[10, 7, 3], [6, 5, 5], [9, 2, 1]], "holes": [2, 4, 1], "needs": 5},
        {"regions": [[10, 7, 3], [6, 5, 5], [9, 2, 1]], "holes": [4, 2, 1], "needs": 3},
        {"regions": [[8, 6, 2], [8, 6, 2]], "holes": [3, 3], "needs": 4},  # two that are alike
    ]
    large = {"regions": [[64 + i, 40 + i, 3 * i] for i in range(12)], "holes": [*range(40, 60)], "needs": 60}
    last_fits = large | {"needs": 59}  # the last hole alone is long enough
    return [*cases, *twice(_drawn, rng, "01.2"), large, last_fits]


def _drawn(rng: random.Random) -> list[dict]:
    cases = []
    for i in range(20):
        made = []
        for _ in range(rng.randint(1, 2 + i // 4)):
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


def _call(case: dict) -> str:
    return f"account({[tuple(region) for region in case['regions']]}, {case['holes']}, {case['needs']})"


def _shape(case: dict, answer: dict) -> str | None:
    given = answer["account"]
    if is_ints(given) and len(given) == 5:
        return None
    return f"{_call(case)} gave {show(given)}; expected five whole numbers in a list"


def _kept(case: dict, answer: dict) -> str | None:
    if same(answer["after"], [case["regions"], case["holes"]]):
        return None
    return f"after {_call(case)} regions and holes are {show(answer['after'])}"


def _entry(which: int, where: Any = lambda case: "") -> Any:
    """``where(case)``: why it is what it is; None where the case is none of this property's."""

    def broken(case: dict, answer: dict) -> str | None:
        given, expected, why = answer["account"][which], right(case)[which], where(case)
        if why is None or same(given, expected):
            return None
        return f"for {_call(case)} {NAMES[which]} is {given}; expected {expected}{why and ', for ' + why}"

    return broken


def _nobody_waits(case: dict) -> str | None:
    return "nobody waits" if case["needs"] is None else None


def _fits(case: dict) -> str | None:
    needs, longest = case["needs"], max(case["holes"], default=0)
    return f"a hole of {longest} is long enough" if needs is not None and needs <= longest else None


def _is_full(case: dict) -> str | None:
    needs, free = case["needs"], sum(case["holes"])
    return f"all holes together have {free} slots only" if needs is not None and needs > free else None


ACCOUNT = Part(
    "01.2",
    "account says what every slot is good for",
    3,
    ("account",),
    _cases,
    probes.account,
    (
        Property("account returns five whole numbers", _shape, ("In this order: " + ", ".join(NAMES) + ".",)),
        Property("the lists that account is given stay as they were", _kept, ("Read from them only.",)),
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
            "nothing is external where nobody waits",
            _entry(3, _nobody_waits),
            ("Whom do scattered slots keep out, where nobody is there?", "Then `needs` is None."),
        ),
        Property(
            "nothing is external where a hole is long enough",
            _entry(3, _fits),
            ("Compare the longest hole with what is needed.", "Exactly long enough is long enough."),
        ),
        Property(
            "nothing is external where there is too little in sum",
            _entry(3, _is_full),
            ("Not enough in sum: then memory is simply full, and its shape is not to blame.",),
        ),
        Property(
            "where the sum would do and no hole does, every free slot is external",
            _entry(3),
            ("None of the holes is of use to the one who waits, not even the longest.",),
        ),
        Property(
            "the free slots that are not external are free",
            _entry(4),
            ("Free slots are external or free, never both. All five add up to all slots.",),
        ),
    ),
)
