"""Part 11.3: the first step of a real engine at three block sizes, predicted."""

from __future__ import annotations

import random
from typing import Any

from pagedlab.grading.exercises.ex11.facts import Facts, facts
from pagedlab.grading.part import Part, Property
from pagedlab.grading.plain import is_ints, show
from pagedlab.grading.tasks.values import values


def _cases(rng: random.Random, seed: int) -> list[dict]:
    return [{"seed": seed}]


def _of(wrong: Any) -> Any:
    def broken(case: dict, answer: dict) -> str | None:
        return wrong(answer["running"], answer["empty"], facts(case["seed"]))

    return broken


def _shape(running: Any, empty: Any, truth: Facts) -> str | None:
    many = len(truth.puzzle.sizes)
    if all(is_ints(x) and len(x) == many for x in (running, empty)):
        return None
    return f"running is {show(running)} and empty is {show(empty)}"


def _where(mine: list[int], right: list[int], truth: Facts) -> int | None:
    """The first block size at which two lists differ."""
    return next((s for s, a, b in zip(truth.puzzle.sizes, mine, right, strict=True) if a != b), None)


def _running(running: list[int], empty: list[int], truth: Facts) -> str | None:
    size = _where(running, truth.running, truth)
    if size is None:
        return None
    count = running[truth.puzzle.sizes.index(size)]
    blocks = truth.puzzle.num_slots // size
    of = f"there are {blocks} of them, for prompts of {truth.puzzle.prompts}"
    return f"you say that {count} run with blocks of {size}; {of}"


def _empty(running: list[int], empty: list[int], truth: Facts) -> str | None:
    size = _where(empty, truth.empty, truth)
    return None if size is None else f"not {empty[truth.puzzle.sizes.index(size)]} with blocks of {size}"


PREDICTION = Part(
    "11.3",
    "one workload at three block sizes, predicted",
    1,
    ("running", "empty"),
    _cases,
    values,
    (
        Property(
            "both are lists with one number for each block size",
            _of(_shape),
            ("For example running = [8, 7, 3] and empty = [2, 40, 100].",),
        ),
        Property(
            "requests come in by their order, as long as there are blocks for their prompt",
            _of(_running),
            (
                "First come, first served: when one does not fit, nobody behind it comes in.",
                "A prompt of 20 tokens needs two blocks of 16. How many blocks has the pool at this size?",
            ),
        ),
        Property(
            "empty slots are those that the running requests hold and have not written",
            _of(_empty),
            (
                "Only those that run hold anything. The step writes their prompts.",
                "The token that the step sampled is not in memory yet.",
            ),
        ),
    ),
)
