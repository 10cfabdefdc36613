"""A library for products of matrices whose order of additions goes by the sizes, as that of real ones does.

Real ones do it differently on each processor, and not for all sizes. This one does the same on every machine: it adds
number by number, in float32, so that a check finds the same bits everywhere.
"""

from __future__ import annotations

import torch


class Library:
    """``library(x, weight)``: x [rows, n], weight [m, n], float32 -> x · weightᵀ [rows, m].

    Each sum of n products is cut into pieces, which are added up from left to right, and then their results. In how
    many pieces, goes by the number of rows. A row's place, and what is in the others, does not matter. ``calls`` counts
    what was asked of it.
    """

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return _summed(x, weight, pieces=1 + 7 * len(x) % 6)


def multiply(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """A right answer to part 2: the same, and a row gets the same bits in any batch. In how many pieces a sum is cut,
    goes by its length n alone."""
    return _summed(x, weight, pieces=1 + 5 * x.shape[1] % 7)


def _summed(x: torch.Tensor, weight: torch.Tensor, pieces: int) -> torch.Tensor:
    """Each piece from left to right, then the pieces. Raises ValueError for shapes that do not belong together."""
    if x.dim() != 2 or weight.dim() != 2 or x.shape[1] != weight.shape[1]:
        raise ValueError(f"x {list(x.shape)} and weight {list(weight.shape)} have to be [rows, n] and [m, n]")
    if x.dtype != torch.float32 or weight.dtype != torch.float32:
        raise ValueError(f"x is {x.dtype} and weight {weight.dtype}; both have to be torch.float32")
    products = x[:, None, :] * weight
    result = torch.zeros(len(x), len(weight))
    for piece in products.tensor_split(min(pieces, max(1, x.shape[1])), dim=-1):
        total = torch.zeros_like(result)
        for i in range(piece.shape[-1]):
            total = total + piece[..., i]
        result = result + total
    return result
