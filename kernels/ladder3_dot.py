"""Ladder 3 of 5: how is a query compared with every key of a block?

One program a *block* now: it loads BLOCK_SIZE keys as a tile, one row a token, and multiplies each with the query.
Addresses of a tile are made of a column and a row, which Triton spreads out to all combinations:

    [BLOCK_SIZE, 1] * stride of a token  +  [1, HEAD_SIZE]   =   [BLOCK_SIZE, HEAD_SIZE] addresses

`tl.sum(..., axis=1)` adds up along each row: one score a token. The last block is only partly filled, so tokens past
the length are masked.
"""

import torch
import triton
import triton.language as tl

from pagedlab.errors import PagedlabError
from pagedlab.kernels.launch import check_device, check_table, launch, padded
from pagedlab.kernels.scale import check_scale


@triton.jit
def scores_kernel(
    scores,
    query,
    key,
    table,
    length,
    scale,
    stride_block,
    stride_token,
    BLOCK_SIZE: tl.constexpr,
    BLOCK_PADDED: tl.constexpr,
    HEAD_SIZE: tl.constexpr,
    HEAD_PADDED: tl.constexpr,
):
    logical_block = tl.program_id(0)
    physical_block_number = tl.load(table + logical_block).to(tl.int64)
    offset = tl.arange(0, BLOCK_PADDED)
    dim = tl.arange(0, HEAD_PADDED)
    position = logical_block * BLOCK_SIZE + offset
    inside = (offset < BLOCK_SIZE) & (position < length)

    q = tl.load(query + dim, mask=dim < HEAD_SIZE, other=0.0).to(tl.float32)
    place = physical_block_number * stride_block + offset[:, None] * stride_token + dim[None, :]
    k = tl.load(key + place, mask=inside[:, None] & (dim < HEAD_SIZE)[None, :], other=0.0).to(tl.float32)
    tl.store(scores + position, tl.sum(k * q[None, :], axis=1) * scale, mask=inside)


def scores(query: torch.Tensor, key: torch.Tensor, table: torch.Tensor, length: int, scale: float) -> torch.Tensor:
    """Scores of one query `[head size]` against the tokens of one KV head, float32 `[length]`; see `ladder2_gather`."""
    check_device(key.device)
    check_table(key, table, length)
    scale = check_scale(scale)
    if query.shape != key.shape[2:] or not query.is_contiguous():
        raise PagedlabError(f"query is {list(query.shape)}; allowed is contiguous [{key.shape[2]}], the head size.")
    block_size, head_size = key.shape[1:]
    result = torch.empty(length, dtype=torch.float32, device=key.device)
    launch(
        scores_kernel, (triton.cdiv(length, block_size),), result, query, key, table, length, scale, *key.stride()[:2],
        BLOCK_SIZE=block_size, BLOCK_PADDED=padded(block_size), HEAD_SIZE=head_size, HEAD_PADDED=padded(head_size),
    )  # fmt: skip
    return result
