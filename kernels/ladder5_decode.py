"""Ladder 5 of 5: paged attention.

The four steps before, in one loop: go through the table block by block; find the block; compare the query with its
keys; let the online softmax weigh its values. One program for each request and query head, one block an iteration, and
nothing made faster: this is also the first of the `rungs` that lead to the kernel that the engine uses.

With a diary, the program writes down after each iteration: physical block, byte offset of its K in the pool, largest,
total.
"""

import torch
import triton
import triton.language as tl

from pagedlab.kernels.launch import check_plain, launch, padded
from pagedlab.kernels.scale import check_scale


@triton.jit
def decode_kernel(
    output,
    query,
    key,
    value,
    block_tables,
    seq_lens,
    diary,
    scale,
    stride_block,
    stride_token,
    stride_head,
    table_stride,
    diary_stride,
    BLOCK_SIZE: tl.constexpr,
    BLOCK_PADDED: tl.constexpr,
    GROUP: tl.constexpr,
    HEAD_SIZE: tl.constexpr,
    HEAD_PADDED: tl.constexpr,
):
    head = tl.program_id(0)
    request = tl.program_id(1)
    kv_head = head // GROUP
    length = tl.load(seq_lens + request)
    row = (request * tl.num_programs(0) + head) * HEAD_SIZE  # contiguous: one query a request
    offset = tl.arange(0, BLOCK_PADDED)
    dim = tl.arange(0, HEAD_PADDED)
    q = tl.load(query + row + dim, mask=dim < HEAD_SIZE, other=0.0).to(tl.float32)

    largest = -float("inf")
    total = 0.0
    weighted = tl.zeros([HEAD_PADDED], tl.float32)
    for logical_block in range(0, tl.cdiv(length, BLOCK_SIZE)):
        physical_block_number = tl.load(block_tables + request * table_stride + logical_block).to(tl.int64)
        inside = (offset < BLOCK_SIZE) & (logical_block * BLOCK_SIZE + offset < length)
        block_place = physical_block_number * stride_block + kv_head * stride_head
        place = block_place + offset[:, None] * stride_token + dim[None, :]
        real = inside[:, None] & (dim < HEAD_SIZE)[None, :]
        k = tl.load(key + place, mask=real, other=0.0).to(tl.float32)
        v = tl.load(value + place, mask=real, other=0.0).to(tl.float32)

        score = tl.where(inside, tl.sum(k * q[None, :], axis=1) * scale, -float("inf"))
        new_largest = tl.maximum(largest, tl.max(score, axis=0))
        weight = tl.exp(score - new_largest)
        shrink = tl.exp(largest - new_largest)
        total = total * shrink + tl.sum(weight, axis=0)
        weighted = weighted * shrink + tl.sum(weight[:, None] * v, axis=0)
        largest = new_largest

        if diary is not None:
            line = diary + (request * tl.num_programs(0) + head) * diary_stride + logical_block * 4
            tl.store(line, physical_block_number.to(tl.float64))
            tl.store(line + 1, block_place.to(tl.float64))
            tl.store(line + 2, largest.to(tl.float64))
            tl.store(line + 3, total.to(tl.float64))
    tl.store(output + row + dim, (weighted / total).to(output.dtype.element_ty), mask=dim < HEAD_SIZE)


def decode(query, layer, block_tables, seq_lens, scale: float, diary: torch.Tensor | None = None) -> torch.Tensor:
    """Attention of one query a request, `[requests, query heads, head size]` (contiguous); K and V with equal strides.

    diary: float64 `[requests, query heads, max blocks, 4]`, filled with physical block, element offset of the block's
    K for this head (times bytes per element: its byte offset in the layer's K), running largest score, running sum.
    """
    check_plain(query, layer, block_tables, seq_lens)
    scale = check_scale(scale)
    output = torch.empty_like(query)
    requests, query_heads, head_size = query.shape
    launch(
        decode_kernel, (query_heads, requests), output, query, layer.key, layer.value, block_tables, seq_lens, diary,
        scale, *layer.key.stride()[:3], block_tables.stride(0), 0 if diary is None else diary.stride(1),
        BLOCK_SIZE=layer.block_size, BLOCK_PADDED=padded(layer.block_size), GROUP=query_heads // layer.num_kv_heads,
        HEAD_SIZE=head_size, HEAD_PADDED=padded(head_size),
    )  # fmt: skip
    return output
