"""Part 04.3: from bytes and bandwidth to the batch and its tokens per second."""

from __future__ import annotations

import math
import random
from typing import Any

from pagedlab.grading.part import Part, Property
from pagedlab.grading.plain import raised, same, show
from pagedlab.grading.tasks.ex04 import probes

# (weight bytes, bytes per token, block size): SmolLM2-135M in float32, Llama-3.1-8B in bfloat16, and a round one.
MODELS = ((538_060_032, 46_080, 16), (16_060_522_496, 131_072, 16), (1_000_000, 1_000, 4))


def _cases(rng: random.Random, seed: int) -> list[dict]:
    # A round one, 1 MB of weights and 1 kB a token: with a rest; without one; and with room for nobody.
    round_one = {"weights": 1_000_000, "per_token": 1_000, "block_size": 4, "bandwidth": 1e6}
    cases = [
        {"memory": memory, "context": context} | round_one
        for memory, context in ((1_100_000, 10), (1_096_000, 12), (1_008_000, 12))
    ]
    for i in range(24):
        weights, per_token, size = MODELS[i % 3]
        context = rng.randint(1, 40 * size)
        share = rng.randint(1, 60 * size * (1 + i // 3)) * per_token
        bandwidth = float(rng.choice([10**9, 2 * 10**10, 48 * 10**11]))
        cases.append(
            {
                "memory": weights + share,
                "weights": weights,
                "per_token": per_token,
                "block_size": size,
                "context": context,
                "bandwidth": bandwidth,
            }
        )
    return cases


def right(case: dict) -> list:
    """The batch, and its tokens per second."""
    blocks = (case["memory"] - case["weights"]) // (case["block_size"] * case["per_token"])
    batch = blocks // -(-(case["context"] + 1) // case["block_size"])
    moved = case["weights"] + batch * (case["context"] + 1) * case["per_token"]
    return [batch, batch * case["bandwidth"] / moved]


def _of(wrong: Any) -> Any:
    def broken(case: dict, answer: dict) -> str | None:
        if wrong(case, answer["batch_and_speed"], right(case)):
            asked = ", ".join(f"{name}={value:,}".replace(",", "_") for name, value in case.items())
            return f"batch_and_speed({asked}) gave {show(answer['batch_and_speed'])}"
        return None

    return broken


def _shape(case: dict, given: Any, expected: list) -> bool:
    fine = type(given) is list and len(given) == 2 and type(given[0]) is int and type(given[1]) in (int, float)
    return raised(given) is not None or not fine or not math.isfinite(given[1])


def _slow_or_fast(case: dict, given: list, expected: list) -> bool:
    return not math.isclose(given[1], expected[1], rel_tol=1e-6, abs_tol=1e-12)


SPEED = Part(
    "04.3",
    "batch_and_speed: the largest batch and its tokens per second",
    2,
    ("batch_and_speed",),
    _cases,
    probes.speed,
    (
        Property(
            "batch_and_speed returns a whole number and a number",
            _of(_shape),
            ("The batch is an int (//), tokens per second may be a float. A batch of 0 makes 0 tokens per second.",),
        ),
        Property(
            "the batch's blocks and the weights fit into memory together",
            _of(lambda case, given, expected: given[0] > expected[0]),
            (
                "Which part of the memory is left for blocks? How many whole ones are that?",
                "A request needs whole blocks, for its context and for the token that this step writes.",
            ),
        ),
        Property(
            "the batch is the largest one that fits",
            _of(lambda case, given, expected: not same(given[0], expected[0])),
            ("Nothing is reserved for later. What remains after whole requests is just not used.",),
        ),
        Property(
            "a step takes as long as its bytes do at this bandwidth, and makes one token for each request",
            _of(_slow_or_fast),
            (
                "How many bytes does one step move? Count the weights once, and K and V of every token.",
                "Each request reads its context and writes one token. Bytes / bandwidth is the step's time.",
            ),
        ),
    ),
)
