"""Part 01.1: a strip of slots, handed out by first fit."""

from __future__ import annotations

import random
from typing import Any

from pagedlab.grading.draws import twice
from pagedlab.grading.part import Part, Property
from pagedlab.grading.plain import is_int, is_ints, same, show
from pagedlab.grading.tasks.ex01 import probes
from pagedlab.kv.contiguous import ContiguousAllocator

# What is done to a strip: ["reserve", length], or ["release", i], the region of the i-th reserve that was granted.
Work = list[list]


def _cases(rng: random.Random, seed: int) -> list[dict]:
    thirds = [["reserve", 3]] * 3
    cases = [
        # Always there: a second hole that fits better; joining at both sides; enough in sum and too short each.
        {"num_slots": 12, "work": [["reserve", 5], ["reserve", 2], ["reserve", 3], ["release", 0], ["reserve", 2]]},
        {"num_slots": 9, "work": [*thirds, ["release", 0], ["release", 2], ["reserve", 4]]},
        {"num_slots": 9, "work": [*thirds, *(["release", i] for i in (0, 2, 1)), ["reserve", 9]]},
        {"num_slots": 4, "work": [["reserve", 4], ["reserve", 1], ["release", 0], ["reserve", 5], ["reserve", 4]]},
    ]
    # And a long strip with many holes.
    many = [*[["reserve", 15]] * 40, *(["release", i] for i in range(0, 40, 2)), ["reserve", 16]]
    long = {"num_slots": 600, "work": [*many, ["release", 1], ["reserve", 40], ["release", 39], ["reserve", 30]]}
    return [*cases, *twice(_drawn, rng, "01.1"), long]


def _drawn(rng: random.Random) -> list[dict]:
    return [_random_work(rng, 8 + i, 6 + 2 * i) for i in range(16)]


def _random_work(rng: random.Random, num_slots: int, count: int) -> dict:
    strip, held, granted, work = ContiguousAllocator(num_slots), {}, 0, []
    for _ in range(count):
        if held and rng.random() < 0.45:
            which = rng.choice(sorted(held))
            strip.release(*held.pop(which))
            work.append(["release", which])
        else:
            length = rng.randint(1, max(2, num_slots // 3))
            start = strip.reserve(length)
            work.append(["reserve", length])
            if start is not None:
                held[granted] = (start, length)
                granted += 1
    return {"num_slots": num_slots, "work": work}


def _reference(case: dict) -> list[dict]:
    return probes.first_fit({"FirstFit": ContiguousAllocator}, case)["answers"]


def _made(case: dict, answer: dict) -> str | None:
    return answer["made"] and f"FirstFit({case['num_slots']}) gave {answer['made']}"


def _other(case: dict, answer: dict) -> str | None:
    free = [[0, case["num_slots"]]]
    if answer["made"] or same(answer["other"], free):
        return None
    return f"after work on one strip of {free[0][1]} slots another's holes is {show(answer['other'])}; expected {free}"


def _of(wrong: Any) -> Any:
    """Look at the first piece of work after which the strip is not like the reference's: from there on the two are not
    alike. ``wrong`` gets what, number, answer, right answer and the holes before, and says what it finds."""

    def broken(case: dict, answer: dict) -> str | None:
        holes: list = [[0, case["num_slots"]]]
        for (what, number), given, right in zip(case["work"], answer["answers"], _reference(case), strict=False):
            if not same(given, right):
                free = ", ".join(f"{start} to {start + length - 1}" for start, length in holes) or "none"
                did = f"reserve({number})" if what == "reserve" else "a region was released"
                found = wrong(what, number, given, right, holes)
                return found and f"{case['num_slots']} slots, free were {free}; {did}: {found}"
            holes = right["holes"]
        return None

    return broken


def _result(given: dict, right: dict) -> str:
    return f"it gave {show(given['result'])}; expected {show(right['result'])}"


def _holes(given: dict, right: dict) -> str:
    return f"then holes is {show(given['holes'])}; expected {show(right['holes'])}"


def _shape(what: str, number: int, given: dict, right: dict, holes: list) -> str | None:
    result = given["result"]
    if result is not None and not (what == "reserve" and is_int(result, 0)):
        return _result(given, right)
    listed = type(given["holes"]) is list and all(is_ints(hole) and len(hole) == 2 for hole in given["holes"])
    return None if listed else _holes(given, right)


def _in_use(what: str, number: int, given: dict, right: dict, holes: list) -> str | None:
    start = given["result"]
    if what != "reserve" or start is None:
        return None
    inside = any(first <= start and start + number <= first + length for first, length in holes)
    return None if inside else _result(given, right)


def _gave_up(what: str, number: int, given: dict, right: dict, holes: list) -> str | None:
    return _result(given, right) if given["result"] is None and right["result"] is not None else None


def _not_first(what: str, number: int, given: dict, right: dict, holes: list) -> str | None:
    return None if same(given["result"], right["result"]) else _result(given, right)


def _wrong_sum(what: str, number: int, given: dict, right: dict, holes: list) -> str | None:
    found, expected = (sum(length for _, length in one["holes"]) for one in (given, right))
    return None if found == expected else f"then holes is {show(given['holes'])}, {found} slots; expected {expected}"


def _wrong_holes(what: str, number: int, given: dict, right: dict, holes: list) -> str | None:
    return _holes(given, right)


FIRST_FIT = Part(
    "01.1",
    "FirstFit hands out a strip of slots",
    3,
    ("FirstFit",),
    _cases,
    probes.first_fit,
    (
        Property("a strip is made with FirstFit(num_slots)", _made, ("__init__ takes the number of slots.",)),
        Property(
            "reserve returns a slot's number or None, and holes is a list of (start, length)",
            _of(_shape),
            ("The start of the region is a plain int. Where there is no room: None, and no error.",),
        ),
        Property(
            "a region lies in one hole, whole",
            _of(_in_use),
            (
                "Is the hole long enough for all of it? The sum over all holes does not help.",
                "Every slot of the region was free before: start and start + length - 1 lie in the same hole.",
            ),
        ),
        Property(
            "where some hole is long enough, the region is granted",
            _of(_gave_up),
            ("Look at every hole before giving up.", "Exactly long enough is long enough."),
        ),
        Property(
            "it is the first such hole, and the region begins where the hole begins",
            _of(_not_first),
            (
                "First means from the left; how well it fits does not matter.",
                "The region takes the left end of the hole; the rest stays a hole.",
            ),
        ),
        Property(
            "no slot is lost and none appears: the holes hold what is free",
            _of(_wrong_sum),
            ("What is left of a hole stays a hole. What was refused has changed nothing.",),
        ),
        Property(
            "holes are in order, none is empty, and two that touch are one",
            _of(_wrong_holes),
            (
                "A released region may have a hole at its left, at its right, or at both sides.",
                "After every release, walk over the sorted holes: does one end where the next one starts?",
            ),
        ),
        Property("each strip has holes of its own", _other, ("What __init__ makes belongs to self.",)),
    ),
)
