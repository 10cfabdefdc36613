"""Ladder 1 of 5: what is a kernel, and what is a mask?

A kernel is a function that runs many times at once. Each run is a *program*; `tl.program_id(0)` tells it which one it
is. A program does not hold one number but a block of them: here PIECE numbers, whose addresses are

    source + program * PIECE + 0 ... PIECE - 1

100 numbers in pieces of 64 make two programs, and the second one would read 28 numbers past the end. The mask says
which addresses are real: for the others nothing is read and nothing is written.
"""

import torch
import triton
import triton.language as tl

from pagedlab.errors import PagedlabError
from pagedlab.kernels.launch import check_device, launch


@triton.jit
def copy_kernel(destination, source, length, PIECE: tl.constexpr):
    element = tl.program_id(0) * PIECE + tl.arange(0, PIECE)
    inside = element < length
    numbers = tl.load(source + element, mask=inside)
    tl.store(destination + element, numbers, mask=inside)


def copy(source: torch.Tensor, destination: torch.Tensor | None = None, piece: int = 64) -> torch.Tensor:
    """A copy of a one-dimensional contiguous tensor; at the start of ``destination`` where one is given."""
    check_device(source.device)
    if source.dim() != 1 or not source.is_contiguous():
        raise PagedlabError(f"copy takes a contiguous tensor of one dimension, not {list(source.shape)}.")
    destination = torch.empty_like(source) if destination is None else destination
    launch(copy_kernel, (triton.cdiv(len(source), piece),), destination, source, len(source), PIECE=piece)
    return destination
