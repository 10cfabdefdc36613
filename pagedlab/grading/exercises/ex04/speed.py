"""Part 04.3: from bytes and bandwidth to the batch and its tokens per second."""

from __future__ import annotations

import math
import random
from typing import Any

from pagedlab.grading.draws import twice
from pagedlab.grading.part import Part, Property
from pagedlab.grading.plain import same, show
from pagedlab.grading.tasks.ex04 import probes

# (weight bytes, bytes per token, block size): SmolLM2-135M in float32, Llama-3.1-8B in bfloat16, and a round one.
MODELS = ((538_060_032, 46_080, 16), (16_060_522_496, 131_072, 16), (1_000_000, 1_000, 4))


def _cases(rng: random.Random, seed: int) -> list[dict]:
    # Round ones, 1 MB of weights and 1 kB a token: with a rest; without one; a byte short of a block; with more memory
    # than weights; and with room for nobody.
    rooms = ((1_100_000, 10), (1_096_000, 12), (1_095_999, 12), (1_096_000, 11), (2_100_000, 10), (1_008_000, 12))
    round_ones = [_case(memory, 1_000_000, 1_000, 4, context, 1e6) for memory, context in rooms]
    many = _case(9_000_000, 1_000_000, 1_000, 4, 3, 1e6)  # 2,000 requests
    return [*round_ones, *twice(_drawn, rng, "04.3"), many]


def _drawn(rng: random.Random) -> list[dict]:
    cases = []
    for i in range(18):
        weights, per_token, size = MODELS[i % 3]
        context = rng.randint(1, 40 * size)
        share = rng.randint(1, 60 * size * (1 + i // 3)) * per_token
        bandwidth = float(rng.choice([10**9, 2 * 10**10, 48 * 10**11]))
        cases.append(_case(weights + share, weights, per_token, size, context, bandwidth))
    return cases


def _case(memory: int, weights: int, per_token: int, block_size: int, context: int, bandwidth: float) -> dict:
    return {
        "memory": memory,
        "weights": weights,
        "per_token": per_token,
        "block_size": block_size,
        "context": context,
        "bandwidth": bandwidth,
    }


def right(case: dict) -> list:
    """The batch, and its tokens per second."""
    blocks = (case["memory"] - case["weights"]) // (case["block_size"] * case["per_token"])
    batch = blocks // -(-(case["context"] + 1) // case["block_size"])
    moved = case["weights"] + batch * (case["context"] + 1) * case["per_token"]
    return [batch, batch * case["bandwidth"] / moved]


def _call(case: dict) -> str:
    arguments = ", ".join(f"{name}={value:,}".replace(",", "_") for name, value in case.items())
    return f"batch_and_speed({arguments})"


def _shape(case: dict, answer: dict) -> str | None:
    given = answer["batch_and_speed"]
    fine = type(given) is list and len(given) == 2 and type(given[0]) is int and type(given[1]) in (int, float)
    if fine and math.isfinite(given[1]):
        return None
    return f"{_call(case)} gave {show(given)}; expected a whole number and a number"


def _batch(wrong: Any) -> Any:
    def broken(case: dict, answer: dict) -> str | None:
        given, expected = answer["batch_and_speed"][0], right(case)[0]
        return f"{_call(case)} gave a batch of {given}; expected {expected}" if wrong(given, expected) else None

    return broken


def _slow_or_fast(case: dict, answer: dict) -> str | None:
    given, expected = answer["batch_and_speed"][1], right(case)[1]
    if math.isclose(given, expected, rel_tol=1e-6, abs_tol=1e-12):
        return None
    return f"{_call(case)} gave {given:.6g} tokens per second; expected {expected:.6g}"


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
            _shape,
            ("The batch is an int (//), tokens per second may be a float. A batch of 0 makes 0 tokens per second.",),
        ),
        Property(
            "the batch's blocks and the weights fit into memory together",
            _batch(lambda given, expected: given > expected),
            (
                "Which part of the memory is left for blocks? How many whole ones are that?",
                "A request needs whole blocks, for its context and for the token that this step writes.",
            ),
        ),
        Property(
            "the batch is the largest one that fits",
            _batch(lambda given, expected: not same(given, expected)),
            ("Nothing is reserved for later. What remains after whole requests is just not used.",),
        ),
        Property(
            "a step takes as long as its bytes do at this bandwidth, and makes one token for each request",
            _slow_or_fast,
            (
                "How many bytes does one step move? Count the weights once, and K and V of every token.",
                "Each request reads its context and writes one token. Bytes / bandwidth is the step's time.",
            ),
        ),
    ),
)
