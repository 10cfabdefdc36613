"""Part 11.1: what a block size costs, at both ends."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from pagedlab.grading.draws import twice
from pagedlab.grading.part import Part, Property
from pagedlab.grading.plain import is_ints, raised, show
from pagedlab.grading.tasks.ex11 import probes

WHAT = ("entries", "empty slots", "tokens that are found")
SIZES = (1, 4, 16, 2, 8, 32, 64, 3)


def right(case: dict) -> list[int]:
    size, lengths, common = case["block_size"], case["lengths"], case["common"]
    entries = sum(-(-length // size) for length in lengths)
    return [entries, entries * size - sum(lengths), common // size * size]


def _cases(rng: random.Random, seed: int) -> list[dict]:
    cases = [{"lengths": [4], "block_size": 4, "common": 4}, {"lengths": [5], "block_size": 4, "common": 3}]
    cases += [
        {"lengths": [1], "block_size": 1, "common": 1},
        {"lengths": [7, 7], "block_size": 4, "common": 7},
        {"lengths": [1], "block_size": 4, "common": 1},  # more slots empty than written
        {"lengths": [8, 9, 1], "block_size": 4, "common": 0},
    ]
    large = {"lengths": [300, 1000], "block_size": 48, "common": 250}
    many = {"lengths": [17 + i for i in range(120)], "block_size": 16, "common": 17}
    return [*cases, *twice(_drawn, rng, "11.1"), large, many]


def _drawn(rng: random.Random) -> list[dict]:
    cases = []
    for i in range(20):
        size = SIZES[i % len(SIZES)]
        lengths = [rng.randint(1, 5 * size + 20) for _ in range(1 + i // 4)]
        if i % 3 == 0:
            lengths[0] = size * rng.randint(1, 3)  # a request that ends with a block
        cases.append({"lengths": lengths, "block_size": size, "common": rng.randint(0, min(lengths))})
    return cases


def _of(wrong: Callable[[Any, list[int]], bool], which: int = -1) -> Any:
    def broken(case: dict, answer: dict) -> str | None:
        costs, true = answer["costs"], right(case)
        if not wrong(costs, true):
            return None
        call = f"costs({case['lengths']}, {case['block_size']}, {case['common']})"
        if which < 0:
            return f"{call} gave {show(costs)}"
        return f"{call}: expected are {true[which]} {WHAT[which]}, found {costs[which]}"

    return broken


COSTS = Part(
    "11.1",
    "what a block size costs",
    1,
    ("costs",),
    _cases,
    probes.costs,
    (
        Property(
            "costs returns three plain ints",
            _of(lambda found, _: bool(raised(found)) or not is_ints(found) or len(found) != 3),
            ("(table entries, empty slots, tokens found)",),
        ),
        Property(
            "every request has one entry for each block that it holds, the last one too",
            _of(lambda found, true: found[0] != true[0], 0),
            (
                "5 tokens in blocks of 4 are two blocks, 4 tokens are one.",
                "Round up for each request by itself, then add: two requests never share a last block.",
            ),
        ),
        Property(
            "a slot is empty when it is held and has no token",
            _of(lambda found, true: found[1] != true[1], 1),
            ("Blocks held times block size, less the tokens.",),
        ),
        Property(
            "of a common beginning only whole blocks can be found",
            _of(lambda found, true: found[2] != true[2], 2),
            ("7 common tokens hold one full block of 4. The other 3 lie in a block whose rest is not the same.",),
        ),
    ),
)
