"""What if there are fewer requests than the GPU has processors?

`decode.py` gives each request and KV head one program. One request of Llama 3.1 is 8 programs, and an H200 has 132
processors (SMs). So cut the context into SPLITS parts and let each part have its program ("flash decoding"). Each
leaves behind, per query head:

    largest     its largest score
    total       the sum of exp(score - largest) over its part
    weighted    the sum of exp(score - largest) * V over its part          (divided by total)

A second, small kernel merges the parts. With m the largest of all `largest`, part i counts
total_i * exp(largest_i - m), and the result is the mean of the parts' outputs weighted so: the same as if one program
had seen it all (log-sum-exp).

The number of parts is a launch-time constant, the length of a part is not: each request divides its own context, in
whole tiles. Parts that a short request does not need return at once and are not read by the merge. So a captured CUDA
graph stays right while contexts grow.
"""

import triton
import triton.language as tl

from pagedlab.kernels.attend_blocks import attend_blocks
from pagedlab.kernels.decode import WATCH_HEADER, group_offsets
from pagedlab.kernels.watch import watch_end, watch_start


@triton.jit
def tokens_of_a_part(tokens, SPLITS: tl.constexpr, TILE: tl.constexpr):
    """Divide `tokens` over SPLITS programs, in whole tiles."""
    return tl.cdiv(tl.cdiv(tokens, TILE), SPLITS) * TILE


@triton.jit
def paged_decode_split_kernel(
    partial_output,  # float32 [tokens, query heads, SPLITS, HEAD_SIZE], contiguous
    partial_largest,  # float32 [tokens, query heads, SPLITS]
    partial_total,  # float32 [tokens, query heads, SPLITS]
    query,
    key,
    value,
    block_tables,
    seq_lens,
    query_start_loc,
    watch,
    scale,
    soft_cap,
    query_stride_token,
    query_stride_head: tl.constexpr,
    key_stride_block,
    key_stride_token: tl.constexpr,
    key_stride_head: tl.constexpr,
    value_stride_block,
    value_stride_token: tl.constexpr,
    value_stride_head: tl.constexpr,
    table_stride,
    watch_stride,
    BLOCK_SIZE: tl.constexpr,
    GROUP: tl.constexpr,
    ROWS: tl.constexpr,
    HEAD_SIZE: tl.constexpr,
    HEAD_PADDED: tl.constexpr,
    TILE: tl.constexpr,
    SPLITS: tl.constexpr,
    WINDOW: tl.constexpr,
    SOFT_CAP: tl.constexpr,
    PAGED: tl.constexpr,
    UPCAST: tl.constexpr,
    WATCH: tl.constexpr,
):
    kv_head = tl.program_id(0)
    request = tl.program_id(1)
    split = tl.program_id(2)
    context = tl.load(seq_lens + request)
    first_token = tl.load(query_start_loc + request)
    end_token = tl.load(query_start_loc + request + 1)
    query_heads = tl.num_programs(0) * GROUP
    row = tl.arange(0, ROWS)
    dim = tl.arange(0, HEAD_PADDED)
    if WATCH:
        watch += ((request * tl.num_programs(0) + kv_head) * SPLITS + split).to(tl.int64) * watch_stride
        if WATCH == 2:
            watch_start(watch)

    for token in range(first_token, end_token):
        end = context - (end_token - 1 - token)
        first = 0
        if WINDOW > 0:
            first = tl.maximum(end - WINDOW, 0)
        part = tokens_of_a_part(end - first, SPLITS, TILE)
        part_first = first + split * part
        part_end = tl.minimum(part_first + part, end)
        if part_first < end:
            offsets, real = group_offsets(
                token, kv_head, query_stride_token, query_stride_head, row, dim, GROUP, HEAD_SIZE
            )
            q = tl.load(query + offsets, mask=real, other=0.0)
            if UPCAST:
                q = q.to(tl.float32)
            largest, total, weighted = attend_blocks(
                q,
                tl.zeros([ROWS], tl.int32) + (end - 1),
                part_first,
                part_end,
                key + kv_head.to(tl.int64) * key_stride_head,
                value + kv_head.to(tl.int64) * value_stride_head,
                block_tables + request.to(tl.int64) * table_stride,
                key_stride_block,
                key_stride_token,
                value_stride_block,
                value_stride_token,
                scale,
                soft_cap,
                watch + WATCH_HEADER if WATCH else None,
                BLOCK_SIZE,
                HEAD_SIZE,
                HEAD_PADDED,
                TILE,
                WINDOW,
                SOFT_CAP,
                PAGED,
                UPCAST,
                WATCH,
            )
            place = ((tl.zeros([1], tl.int64) + token) * query_heads + kv_head * GROUP + row) * SPLITS + split
            tl.store(partial_largest + place, largest, mask=row < GROUP)
            tl.store(partial_total + place, total, mask=row < GROUP)
            tl.store(partial_output + place[:, None] * HEAD_SIZE + dim[None, :], weighted / total[:, None], mask=real)

    if WATCH == 2:
        watch_end(watch)


@triton.jit
def merge_splits_kernel(
    output,
    partial_output,
    partial_largest,
    partial_total,
    seq_lens,
    query_start_loc,
    output_stride_token,
    output_stride_head,
    HEAD_SIZE: tl.constexpr,
    HEAD_PADDED: tl.constexpr,
    TILE: tl.constexpr,
    SPLITS: tl.constexpr,
    SPLITS_PADDED: tl.constexpr,
    WINDOW: tl.constexpr,
):
    head = tl.program_id(0)
    request = tl.program_id(1)
    query_heads = tl.num_programs(0)
    context = tl.load(seq_lens + request)
    first_token = tl.load(query_start_loc + request)
    end_token = tl.load(query_start_loc + request + 1)
    split = tl.arange(0, SPLITS_PADDED)
    dim = tl.arange(0, HEAD_PADDED)
    for token in range(first_token, end_token):
        tokens = context - (end_token - 1 - token)
        if WINDOW > 0:
            tokens = tl.minimum(tokens, WINDOW)
        # Only these parts were written; the rest of the buffers may hold anything.
        written = split < tl.cdiv(tokens, tokens_of_a_part(tokens, SPLITS, TILE))
        token = tl.zeros([1], tl.int64) + token
        place = (token * query_heads + head) * SPLITS + split
        largest = tl.load(partial_largest + place, mask=written, other=float("-inf"))
        total = tl.load(partial_total + place, mask=written, other=0.0)
        weight = total * tl.exp2(largest - tl.max(largest, axis=0))
        inside = written[:, None] & (dim < HEAD_SIZE)[None, :]
        part = tl.load(partial_output + place[:, None] * HEAD_SIZE + dim[None, :], mask=inside, other=0.0)
        result = tl.sum(part * weight[:, None], axis=0) / tl.sum(weight, axis=0)
        pointers = output + token * output_stride_token + head * output_stride_head + dim
        tl.store(pointers, result.to(output.dtype.element_ty), mask=dim < HEAD_SIZE)
