"""Part 04.4: one step of a paged engine under load, predicted."""

from __future__ import annotations

import random
from typing import Any

from pagedlab.grading.exercises.ex04.facts import Facts, facts
from pagedlab.grading.part import Part, Property
from pagedlab.grading.plain import is_int, same, show
from pagedlab.grading.tasks.ex04 import probes
from pagedlab.grading.tasks.ex04.story import BLOCK_SIZE, NUM_BLOCKS

NAMES = ("now_running", "blocks_left", "empty_slots")


def _cases(rng: random.Random, seed: int) -> list[dict]:
    return [{"seed": seed}]


def _of(wrong: Any) -> Any:
    def broken(case: dict, answer: dict) -> str | None:
        return wrong(answer, facts(case["seed"]))

    return broken


def _shape(answer: dict, truth: Facts) -> str | None:
    if all(is_int(answer[name], 0) for name in NAMES):
        return None
    return ", ".join(f"{name} is {show(answer[name])}" for name in NAMES)


def _number(name: str) -> Any:
    def wrong(answer: dict, truth: Facts) -> str | None:
        return None if same(answer[name], getattr(truth, name)) else f"{name} is {answer[name]}"

    return wrong


def _bound(answer: dict, truth: Facts) -> str | None:
    most = (BLOCK_SIZE - 1) * answer["now_running"]
    answer_text = f"empty_slots is {answer['empty_slots']}, and {answer['now_running']} requests run"
    return answer_text if answer["empty_slots"] > most else None


PREDICTION = Part(
    "04.4",
    "a step in which several want in, predicted",
    2,
    NAMES,
    _cases,
    probes.prediction,
    (
        Property(
            "three whole numbers", _of(_shape), ("For example now_running = 3, blocks_left = 5, empty_slots = 4.",)
        ),
        Property(
            "who has room comes in, first come, first served",
            _of(_number("now_running")),
            (
                "Those who run are served first, and one of them may need a block.",
                "How many blocks does each prompt need? The first one that does not fit bars those behind it.",
            ),
        ),
        Property(
            f"blocks are held by one request or free, {NUM_BLOCKS - 1} in all",
            _of(_number("blocks_left")),
            ("A running request asks for a block where the token that it writes has no room in its last one.",),
        ),
        Property(
            "no request has a whole block empty",
            _of(_bound),
            ("Each request's waste is less than one block.",),
        ),
        Property(
            "empty are the slots in the tables that hold no token after the step",
            _of(_number("empty_slots")),
            (
                "Each running request writes one token in this step. Those who come in write their prompt.",
                "Add it up request by request: blocks times block size, minus tokens in memory.",
            ),
        ),
    ),
)
