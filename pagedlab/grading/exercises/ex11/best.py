"""Part 11.2: the best block size for a workload."""

from __future__ import annotations

import random
from typing import Any

from pagedlab.grading.draws import twice
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
    return [*_fixed_cases(), *sorted(twice(_drawn, rng, "11.2"), key=lambda case: len(case["lengths"]))]


def _fixed_cases() -> list[dict]:
    """Always asked about: (sizes, lengths, slots, entries at most)."""
    cases = [
        ([1, 16], [20, 10], 128, 8),  # the smallest is not allowed
        ([2, 12, 48], [13, 24, 12], 72, 8),  # no powers of two
        ([16, 256], [200] * 20, 20 * 256, 64),  # many, and large
        ([4, 8, 64], [9, 9, 9], 128, 64),  # two are equally good
        ([8, 4], [9, 9, 9], 128, 64),
        ([4], [9], 128, 3),  # one size, and just so many entries
        ([2, 4], [9], 128, 4),
        ([16, 1], [17, 1, 1, 1], 32, 64),  # the whole pool for the first
        ([16, 1], [1, 17, 1, 1], 32, 64),  # who does not fit bars those behind
        ([1, 8], [10, 1, 9], 16, 64),
        ([1, 8], [8, 8], 16, 64),  # all of the pool
        ([3, 8], [8, 8, 1], 17, 64),  # a pool that is no whole number of blocks
        ([64, 2], [5, 5], 32, 64),  # a block larger than the pool
        ([2, 32, 8, 16], [7, 40, 3, 3, 3], 64, 9),
        ([1, 2, 4], [6, 6, 6, 6], 24, 5),
        ([32, 2, 8], [33, 2, 2], 64, 20),
        ([2, 4], [9, 1], 4, 64),  # nobody fits
        # Pools that are a little too small, or just large enough, for one of two sizes.
        ([4, 8], [1, 16], 23, 64),
        ([8, 2], [5, 14], 21, 64),
        ([16, 4], [20, 20], 20, 64),
        ([8, 1], [3, 17], 23, 64),
        ([4, 1], [18, 4], 19, 64),
    ]
    return [dict(zip(("sizes", "lengths", "num_slots", "max_entries"), case, strict=True)) for case in cases]


def _drawn(rng: random.Random) -> list[dict]:
    cases: list[dict] = []
    while len(cases) < 20:
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
    return cases


def _call(case: dict) -> str:
    return f"best_block_size({case['sizes']}, {case['lengths']}, {case['num_slots']}, {case['max_entries']})"


def _of(wrong: Any, why: Any) -> Any:
    def broken(case: dict, answer: dict) -> str | None:
        size = answer["size"]
        return f"{_call(case)} gave {show(size)}{why(case, size)}" if wrong(case, size) else None

    return broken


def _entries(case: dict, size: int) -> str:
    return f", and a table of {-(-max(case['lengths']) // size)} entries; expected are {case['max_entries']} at most"


def _count(case: dict, size: int) -> str:
    return f", with which {_fits(case, size)} fit; expected are {_fits(case, right(case))}"


def _larger(case: dict, size: int) -> str:
    return f", with which {_fits(case, size)} fit; as many fit with {right(case)}"


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
            _of(lambda case, size: bool(raised(size)) or not is_int(size) or size not in case["sizes"], lambda *_: ""),
            ("A plain int out of the list sizes. The smallest is not always the first.",),
        ),
        Property(
            "no request's table is longer than max_entries",
            _of(lambda case, size: size not in allowed(case), _entries),
            ("The longest request decides. Leave out the sizes with which its table would be too long.",),
        ),
        Property(
            "with no other allowed size do more requests fit",
            _of(lambda case, size: _fits(case, size) < _fits(case, right(case)), _count),
            (
                "Count for each size: hand out blocks in the requests' order until one does not fit any more.",
                "A request needs its whole last block. And the pool has num_slots // size blocks.",
            ),
        ),
        Property(
            "of equally good sizes it is the largest",
            _of(lambda case, size: size != right(case), _larger),
            ("Shorter tables cost less to keep, to send and to read.",),
        ),
        Property(
            "sizes and lengths stay as they are",
            lambda case, answer: f"{_call(case)} changed one of its lists" if answer["changed"] else None,
            ("They are the caller's. sorted(sizes) makes a list of its own; sizes.sort() changes the one you got.",),
        ),
    ),
)
