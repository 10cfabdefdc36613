"""Part 04.2: who is let in."""

from __future__ import annotations

import random
from typing import Any

from pagedlab.grading.draws import twice
from pagedlab.grading.part import Part, Property
from pagedlab.grading.plain import is_ints, same, show
from pagedlab.grading.tasks.ex04 import probes


def _cases(rng: random.Random, seed: int) -> list[dict]:
    cases = [
        {"prompts": [4, 5, 3], "free_blocks": 9, "block_size": 4, "places": 8},
        {"prompts": [4, 9, 3], "free_blocks": 2, "block_size": 4, "places": 8},  # the second one bars the third
        {"prompts": [4, 4, 4], "free_blocks": 9, "block_size": 4, "places": 2},
        {"prompts": [4, 4, 4], "free_blocks": 3, "block_size": 4, "places": 3},  # just enough
        {"prompts": [40], "free_blocks": 2, "block_size": 16, "places": 1},
        {"prompts": [3, 3], "free_blocks": 4, "block_size": 4, "places": 0},
        {"prompts": [], "free_blocks": 4, "block_size": 4, "places": 4},
    ]
    large = {"prompts": [1000] * 30, "free_blocks": 2000, "block_size": 16, "places": 40}
    return [*cases, *twice(_drawn, rng, "04.2"), large]


def _drawn(rng: random.Random) -> list[dict]:
    cases = []
    for i in range(20):
        size = (16, 4, 8, 1, 3)[i % 5]
        prompts = [rng.randint(1, 4 * size) for _ in range(2 + i // 3)]
        needed = sum(-(-prompt // size) for prompt in prompts)
        cases.append(
            {
                "prompts": prompts,
                "free_blocks": rng.randint(0, needed + 1),
                "block_size": size,
                "places": rng.choice([len(prompts), rng.randint(1, len(prompts))]),
            }
        )
    return cases


def right(case: dict) -> list[int]:
    """How many come in, and how many blocks stay free."""
    count, free = 0, case["free_blocks"]
    for prompt in case["prompts"][: case["places"]]:
        needed = -(-prompt // case["block_size"])
        if needed > free:
            break
        count, free = count + 1, free - needed
    return [count, free]


def _call(case: dict) -> str:
    return f"admitted({case['prompts']}, {case['free_blocks']}, {case['block_size']}, {case['places']})"


def _shape(case: dict, answer: dict) -> str | None:
    if is_ints(answer["admitted"]) and len(answer["admitted"]) == 2:
        return None
    return f"{_call(case)} gave {show(answer['admitted'])}; expected two whole numbers"


def _kept(case: dict, answer: dict) -> str | None:
    return None if same(answer["prompts"], case["prompts"]) else f"{_call(case)} left {show(answer['prompts'])}"


def _come_in(wrong: Any) -> Any:
    def broken(case: dict, answer: dict) -> str | None:
        given, expected = answer["admitted"][0], right(case)[0]
        return f"{_call(case)} let {given} in; expected {expected}" if wrong(case, given, expected) else None

    return broken


def _left(case: dict, answer: dict) -> str | None:
    given, expected = answer["admitted"][1], right(case)[1]
    return None if same(given, expected) else f"{_call(case)} left {given} blocks free; expected {expected}"


ADMITTED = Part(
    "04.2",
    "admitted lets in who has room",
    2,
    ("admitted",),
    _cases,
    probes.admitted,
    (
        Property(
            "admitted returns two whole numbers",
            _shape,
            ("How many requests come in, and how many blocks are free afterwards.",),
        ),
        Property("the list of prompts stays as it was", _kept, ("Read from it only.",)),
        Property(
            "no more come in than there are places",
            _come_in(lambda case, given, expected: given > case["places"]),
            ("Blocks are one limit, max_num_seqs is another.",),
        ),
        Property(
            "nobody comes in for whom there are too few blocks, and nobody overtakes",
            _come_in(lambda case, given, expected: given > expected),
            (
                "First come, first served: what does a request do for which there are too few blocks?",
                "A block that is partly filled is a whole block of the pool.",
            ),
        ),
        Property(
            "whoever has room comes in",
            _come_in(lambda case, given, expected: given < expected),
            (
                "Any free block will do, wherever it lies. Nothing is reserved for the answer.",
                "Exactly enough blocks are enough.",
            ),
        ),
        Property(
            "the blocks that are left are free",
            _left,
            ("Only those that came in take blocks.",),
        ),
    ),
)
