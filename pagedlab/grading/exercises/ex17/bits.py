"""What is close enough to the exact result, and what is the same to the bit."""

from __future__ import annotations

from typing import Any

import torch

from pagedlab.grading.plain import raised, show

TOLERANCE = 1e-4  # of float32 sums of some dozen terms, written in any order


def shape_broken(result: Any, shape: list[int], words: str) -> str | None:
    """Of a result (as ``numbers`` gives it) that is no float32 tensor of this shape."""
    if raised(result):
        return f"for {words} it gave {show(result)}"
    if result[:2] == [shape, "torch.float32"]:
        return None
    return f"for {words} it gave a tensor of shape {result[0]} and {result[1]}; expected are {shape} and torch.float32"


def far(result: list, right: torch.Tensor) -> str | None:
    """The first number that is not close to what is right (float64)."""
    found = torch.tensor(result[2], dtype=torch.float64).view(right.shape)
    off = ~((found - right).abs() <= TOLERANCE + TOLERANCE * right.abs())
    if not off.any():
        return None
    row, column = off.nonzero()[0].tolist()
    how_many = f"{int(off.sum())} of {off.numel()} numbers are wrong"
    return f"row {row}, number {column} is {found[row, column]:.5f}; expected {right[row, column]:.5f}; {how_many}"


def other_bits(one: list, other: Any) -> str | None:
    """The first number of two results that is not the same to the last bit."""
    if raised(other):
        return f"it gave {show(other)}"
    if one[0] != other[0]:
        return f"its shape is {other[0]} instead of {one[0]}"
    unlike = [i for i, (a, b) in enumerate(zip(one[2], other[2], strict=True)) if a != b]
    if not unlike:
        return None
    row, column = divmod(unlike[0], one[0][1])
    a, b = one[2][unlike[0]], other[2][unlike[0]]
    return f"row {row}, number {column} is {b:.9g} instead of {a:.9g} ({len(unlike)} of {len(one[2])} differ)"
