"""Ladder 4 of 5: how can a softmax be computed before the last score is known?

softmax needs the largest score (so that exp does not overflow) and the sum of all exp(score - largest). Read the
scores piece by piece and keep both for what was seen so far. When a piece brings a larger largest, everything added up
before was measured from the wrong mark; one factor puts it right:

    total = total * exp(old largest - new largest) + sum of exp(score - new largest) over this piece

One program, one loop, nothing kept but two numbers. The same factor will put right the sum of weighted values in the
last step.
"""

import torch
import triton
import triton.language as tl

from pagedlab.errors import PagedlabError
from pagedlab.kernels.launch import check_device, launch


@triton.jit
def online_softmax_kernel(result, scores, length, PIECE: tl.constexpr):
    largest = -float("inf")
    total = 0.0
    for start in range(0, length, PIECE):
        position = start + tl.arange(0, PIECE)
        score = tl.load(scores + position, mask=position < length, other=-float("inf"))
        new_largest = tl.maximum(largest, tl.max(score, axis=0))
        total = total * tl.exp(largest - new_largest) + tl.sum(tl.exp(score - new_largest), axis=0)
        largest = new_largest
    tl.store(result, largest)
    tl.store(result + 1, total)


def online_softmax(scores: torch.Tensor, piece: int = 16) -> tuple[float, float]:
    """Largest score and sum of exp(score - largest) of a float32 tensor `[length]`, found in one pass."""
    check_device(scores.device)
    if scores.dim() != 1 or not scores.is_contiguous() or len(scores) == 0:
        raise PagedlabError(f"online_softmax takes a contiguous tensor [length], not {list(scores.shape)}.")
    result = torch.empty(2, dtype=torch.float32, device=scores.device)
    launch(online_softmax_kernel, (1,), result, scores, len(scores), PIECE=piece)
    largest, total = result.tolist()
    return largest, total
