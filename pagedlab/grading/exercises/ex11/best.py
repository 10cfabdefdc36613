"""Part 11.2: the best block size for a workload."""

from __future__ import annotations

import random
from typing import Any

from pagedlab.grading.part import Part, Property
from pagedlab.grading.plain import is_int, raised, show
from pagedlab.grading.tasks.ex11 import probes


def at_once(size: int, lengths: list[int], num_slots: int) -> int:
    """How many of the requests fit side by side, in their order, until one does not."""
    free = num_slots // size
    for count, length in enumerate(lengths):
        free -= -(-length // size)
        if free < 0:
            return count
    return len(lengths)


def allowed(case: dict) -> list[int]:
    return [size for size in case["sizes"] if -(-max(case["lengths"]) // size) <= case["max_entries"]]


def right(case: dict) -> int:
    return max(allowed(case), key=lambda size: (at_once(size, case["lengths"], case["num_slots"]), size))


def _cases(rng: random.Random, seed: int) -> list[dict]:
    cases = []
    while len(cases) < 28:
        sizes = sorted(rng.sample((1, 2, 4, 8, 16, 32, 64, 128), rng.randint(2, 5)))
        rng.shuffle(sizes)
        mean = rng.choice((6, 20, 60, 150))
        lengths = [max(1, round(rng.expovariate(1 / mean))) for _ in range(rng.randint(4, 14))]
        case = {
            "sizes": sizes,
            "lengths": lengths,
            "num_slots": 128 * rng.randint(1, 6),
            "max_entries": rng.choice((4, 8, 16, 64)),
        }
        # Some size is allowed, and with some of them not everybody fits.
        if allowed(case) and min(at_once(s, lengths, case["num_slots"]) for s in sizes) < len(lengths):
            cases.append(case)
    # Of a few requests each: one where the smallest size is not allowed, one where all that are allowed are equal.
    cases.sort(key=lambda case: len(case["lengths"]))
    return [
        {"sizes": [1, 16], "lengths": [20, 10], "num_slots": 128, "max_entries": 8},
        {"sizes": [4, 8, 64], "lengths": [9, 9, 9], "num_slots": 128, "max_entries": 64},
        *cases,
    ]


def _call(case: dict) -> str:
    return f"best_block_size({case['sizes']}, {case['lengths']}, {case['num_slots']}, {case['max_entries']})"


def _of(wrong: Any) -> Any:
    def broken(case: dict, answer: Any) -> str | None:
        return f"{_call(case)} gave {show(answer)}" if wrong(case, answer) else None

    return broken


def _fits(case: dict, size: int) -> int:
    return at_once(size, case["lengths"], case["num_slots"])


BEST = Part(
    "11.2",
    "the best block size for a workload",
    2,
    ("best_block_size",),
    _cases,
    probes.best,
    (
        Property(
            "best_block_size returns one of the sizes",
            _of(lambda case, size: bool(raised(size)) or not is_int(size) or size not in case["sizes"]),
            ("A plain int out of the list sizes. The smallest is not always the first.",),
        ),
        Property(
            "no request's table is longer than max_entries",
            _of(lambda case, size: size not in allowed(case)),
            ("The longest request decides. Leave out the sizes with which its table would be too long.",),
        ),
        Property(
            "with no other allowed size do more requests fit",
            _of(lambda case, size: _fits(case, size) < _fits(case, right(case))),
            (
                "Count for each size: hand out blocks in the requests' order until one does not fit any more.",
                "A request needs its whole last block. And the pool has num_slots // size blocks.",
            ),
        ),
        Property(
            "of equally good sizes it is the largest",
            _of(lambda case, size: size != right(case)),
            ("Shorter tables cost less to keep, to send and to read.",),
        ),
    ),
)
