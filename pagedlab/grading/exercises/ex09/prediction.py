"""Part 09.3: one workload on a small card, under four settings, predicted."""

from __future__ import annotations

import random
from typing import Any

from pagedlab.grading.exercises.ex09.facts import Facts, facts
from pagedlab.grading.part import Part, Property
from pagedlab.grading.plain import is_ints, show
from pagedlab.grading.tasks.ex09.story import CHANGES
from pagedlab.grading.tasks.values import values


def _cases(rng: random.Random, seed: int) -> list[dict]:
    return [{"seed": seed}]


def _of(wrong: Any) -> Any:
    def broken(case: dict, answer: dict) -> str | None:
        return wrong(answer["running"], answer["preemptions"], facts(case["seed"]))

    return broken


def _shape(running: Any, preemptions: Any, truth: Facts) -> str | None:
    if all(is_ints(x) and len(x) == len(CHANGES) for x in (running, preemptions)):
        return None
    return f"running is {show(running)} and preemptions is {show(preemptions)}"


def _where(mine: list[int], right: list[int]) -> int | None:
    """The first setting at which two lists differ, counted from 0."""
    return next((i for i, (a, b) in enumerate(zip(mine, right, strict=True)) if a != b), None)


def _running(running: list[int], preemptions: list[int], truth: Facts) -> str | None:
    i = _where(running, truth.running)
    if i is None:
        return None
    of = f"{truth.puzzle.pools[i]} blocks, prompts of {truth.puzzle.prompts}"
    return f"you say that {running[i]} run under setting {i + 1}: {of}"


def _preemptions(running: list[int], preemptions: list[int], truth: Facts) -> str | None:
    i = _where(preemptions, truth.preemptions)
    return None if i is None else f"not {preemptions[i]} under setting {i + 1}"


PREDICTION = Part(
    "09.3",
    "one workload under four settings, predicted",
    2,
    ("running", "preemptions"),
    _cases,
    values,
    (
        Property(
            "both are lists with one number for each setting",
            _of(_shape),
            ("For example running = [5, 1, 5, 4] and preemptions = [0, 3, 0, 1].",),
        ),
        Property(
            "requests come in by their order, as long as the door is open and there are blocks for their prompt",
            _of(_running),
            (
                "First come, first served: when one does not fit, nobody behind it comes in.",
                "With the prefix cache on, the blocks that a prompt has in common with one before it are there "
                "already, even in the same step. They cost nothing a second time.",
            ),
        ),
        Property(
            "somebody is thrown out when a request needs its next block and none is free",
            _of(_preemptions),
            (
                "Write down tokens in memory and blocks for everyone, step by step. Step 1 writes the prompts, each "
                "later step one token for each.",
                "The last admitted goes, even if it was itself who asked. It comes back at the head of the queue, and "
                "needs blocks for all its tokens, the sampled ones too. In a step that threw somebody out, nobody "
                "comes in.",
                "A request holds at most its prompt and 5 of its 6 tokens: the last one is never written.",
            ),
        ),
    ),
)
