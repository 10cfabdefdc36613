"""Part 02.2: from a place to a byte, by strides."""

from __future__ import annotations

import random
from typing import Any

from pagedlab.grading.draws import twice
from pagedlab.grading.part import Part, Property
from pagedlab.grading.plain import is_int, same, show
from pagedlab.grading.tasks.ex02 import probes

AXES = ("layer", "k_or_v", "block", "offset", "head")


def _strides(rng: random.Random, order: list[int]) -> tuple[list[int], list[int]]:
    """(sizes, strides) of a pool whose axes lie in memory in ``order``, the outermost first; the numbers of a head
    are neighbours."""
    sizes = [rng.randint(2, 6), 2, rng.randint(4, 12), rng.choice((2, 4, 8, 16)), rng.randint(2, 5)]
    head_size = rng.choice((8, 16, 64))
    strides, step = [0] * 5, head_size
    for axis in reversed(order):
        strides[axis], step = step, step * sizes[axis]
    return sizes, [*strides, 1]


def _cases(rng: random.Random, seed: int) -> list[dict]:
    # Always there, too: numbers of 8 bytes, and a pool of many gigabytes.
    strides = [1 << 28, 1 << 27, 1 << 14, 1 << 10, 1 << 7, 1]
    wide = {"strides": strides, "element_size": 8, "at": [0, 0, 3, 0, 0]}
    large = {"strides": strides, "element_size": 2, "at": [31, 1, 8191, 15, 7]}
    # A head's numbers that are no neighbours; the end of every axis, far off.
    apart = {"strides": [1 << 28, 1 << 27, 1 << 14, 1 << 10, 1 << 7, 2], "element_size": 2, "at": [0] * 5}
    far = {"strides": [1 << 30, 1 << 29, 1 << 18, 1 << 11, 1 << 6, 1], "element_size": 2, "at": [125, 1, 2047, 127, 31]}
    return [*twice(_drawn, rng, "02.2"), wide, large, apart, far]


def _drawn(rng: random.Random) -> list[dict]:
    cases = []
    orders = [[0, 1, 2, 3, 4], [0, 1, 2, 4, 3], [0, 2, 1, 3, 4]]  # ours, HND, K and V of a block side by side
    for i in range(24):
        order = orders[i % 3] if i < 18 else rng.sample(range(5), 5)
        sizes, strides = _strides(rng, order)
        # First one coordinate alone, in numbers of one byte; then all of them, in numbers of 2 and 4 bytes.
        at = [rng.randrange(1, size) for size in sizes]
        if i == 0:
            at = [0] * 5
        elif i < 11:
            alone = (i - 1) % 5
            at = [step if axis == alone else 0 for axis, step in enumerate(at)]
        cases.append({"strides": strides, "element_size": 1 if i < 6 else (2, 4)[i % 2], "at": at})
    return cases


def _right(case: dict) -> int:
    return case["element_size"] * sum(i * stride for i, stride in zip(case["at"], case["strides"][:5], strict=True))


def _broken(of: Any, wrong: Any) -> Any:
    """Look at those cases that ``of`` chooses."""

    def broken(case: dict, answer: dict) -> str | None:
        if not of(case) or not wrong(answer["byte"], _right(case)):
            return None
        at = ", ".join(f"{axis}={i}" for axis, i in zip(AXES, case["at"], strict=True))
        call = f"byte_offset({tuple(case['strides'])}, element_size={case['element_size']}, {at})"
        return f"{call} gave {show(answer['byte'])}; expected {_right(case)}"

    return broken


def _steps(case: dict) -> int:
    return sum(i > 0 for i in case["at"])


def _wrong(byte: int, right: int) -> bool:
    return not same(byte, right)


def _wrong_step(byte: int, right: int) -> bool:
    """Wrong by more than the size of a number."""
    return byte not in (right, 2 * right, 4 * right)


BYTES = Part(
    "02.2",
    "byte_offset finds every number, in any layout",
    2,
    ("byte_offset",),
    _cases,
    probes.byte,
    (
        Property(
            "byte_offset returns a plain int",
            _broken(lambda case: True, lambda byte, _: not is_int(byte)),
            ("A number of bytes, counted from the pool's first one. No tensor, no float.",),
        ),
        Property(
            "the pool's first number lies at byte 0",
            _broken(lambda case: _steps(case) == 0, _wrong),
            ("Everything is counted from 0: layer 0, block 0, token 0.",),
        ),
        Property(
            "a step along one axis skips as many numbers as that axis's stride says",
            _broken(lambda case: _steps(case) == 1 and case["element_size"] == 1, _wrong_step),
            (
                "strides has six entries, in this order: layer, K or V, block, token in block, KV head, number.",
                "Do not work the strides out of sizes: another layout has other ones. Take those that you are given.",
            ),
        ),
        Property(
            "the result counts bytes, not numbers",
            _broken(lambda case: _steps(case) == 1, _wrong),
            ("Strides count numbers. A number takes element_size bytes: 1, 2, 4 or 8 here.",),
        ),
        Property(
            "the steps along all axes add up",
            _broken(lambda case: True, _wrong),
            (
                "Walk to the layer, from there to K or V, from there to the block, and so on.",
                "One product for each axis: how many steps, times its stride.",
            ),
        ),
    ),
)
