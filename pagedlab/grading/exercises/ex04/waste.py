"""Part 04.1: how many blocks, how many empty slots, and how many at most."""

from __future__ import annotations

import random
from typing import Any

from pagedlab.grading.draws import twice
from pagedlab.grading.part import Part, Property
from pagedlab.grading.plain import is_ints, same, show
from pagedlab.grading.tasks.ex04 import probes


def _cases(rng: random.Random, seed: int) -> list[dict]:
    cases = [
        {"lengths": [5], "block_size": 4},
        {"lengths": [8], "block_size": 4},
        {"lengths": [9, 1, 4], "block_size": 4},
        {"lengths": [3, 1], "block_size": 1},
        {"lengths": [], "block_size": 16},
        {"lengths": [0, 5], "block_size": 4},
        {"lengths": [0, 3], "block_size": 4},  # fewer slots than could be empty
    ]
    large = [{"lengths": [129, 4096, 1] * 30, "block_size": 128}, {"lengths": [1025, 2048], "block_size": 1024}]
    return [*cases, *twice(_drawn, rng, "04.1"), *large]


def _drawn(rng: random.Random) -> list[dict]:
    sizes = (16, 4, 8, 1, 3, 32)
    return [
        {"lengths": [rng.randint(1, 5 * size) for _ in range(1 + i // 3)], "block_size": size}
        for i in range(18)
        for size in [sizes[i % 6]]
    ]


def right(case: dict) -> list[int]:
    """Blocks, empty slots, and the most that could be empty."""
    lengths, size = case["lengths"], case["block_size"]
    blocks = sum(-(-length // size) for length in lengths)
    return [blocks, blocks * size - sum(lengths), len(lengths) * (size - 1)]


NAMES = ("blocks", "empty slots", "empty slots at most")


def _call(case: dict) -> str:
    return f"waste({case['lengths']}, {case['block_size']})"


def _shape(case: dict, answer: dict) -> str | None:
    if is_ints(answer["waste"]) and len(answer["waste"]) == 3:
        return None
    return f"{_call(case)} gave {show(answer['waste'])}; expected three whole numbers"


def _kept(case: dict, answer: dict) -> str | None:
    return None if same(answer["lengths"], case["lengths"]) else f"{_call(case)} left {show(answer['lengths'])}"


def _entry(which: int) -> Any:
    def broken(case: dict, answer: dict) -> str | None:
        given, expected = answer["waste"][which], right(case)[which]
        return None if same(given, expected) else f"{_call(case)} gave {given} {NAMES[which]}; expected {expected}"

    return broken


WASTE = Part(
    "04.1",
    "waste counts blocks and empty slots, and bounds them",
    2,
    ("waste",),
    _cases,
    probes.waste,
    (
        Property(
            "waste returns three whole numbers",
            _shape,
            ("Blocks, empty slots now, and empty slots at most. Divide whole numbers with //.",),
        ),
        Property("the list of lengths stays as it was", _kept, ("Read from it only.",)),
        Property(
            "each request has just the blocks that it needs",
            _entry(0),
            (
                "No block is shared here, and none is held ahead.",
                "A full last block is no reason for one more; a single token in a new block is.",
            ),
        ),
        Property(
            "every slot of these blocks holds a token or is empty",
            _entry(1),
            ("Slots that are held, minus slots that are written.",),
        ),
        Property(
            "the bound holds for any lengths of so many requests, and some lengths reach it",
            _entry(2),
            (
                "The bound does not depend on the lengths. How empty can one request's last block be?",
                "A block is asked for when a token needs it. So can all its slots be empty?",
            ),
        ),
    ),
)
