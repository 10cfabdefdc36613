"""How does one new token attend to everything before it, when "everything" lies in blocks?

One program for each request and KV head. All query heads that share the KV head (the *group*: 4 in Llama 3.1, 3 in
SmolLM2) are rows of one tile, so that each block of K and V is loaded once for the whole group: decoding waits for
memory, not for arithmetic. Programs do not talk to each other. Its two numbers give a program its pointers, and
`attend_blocks` does the rest:

    table        = block_tables + request * stride of a table
    key, value   = pool + kv_head * stride of a head                (inside any block, at any token)
    query row i  = query + token * stride of a token + (kv_head * GROUP + i) * stride of a head

A long context of few requests leaves most of the GPU idle here, because few programs run: see `decode_split.py`.
"""

import triton
import triton.language as tl

from pagedlab.kernels.attend_blocks import attend_blocks
from pagedlab.kernels.watch import HEADER, watch_end, watch_start

WATCH_HEADER = tl.constexpr(HEADER)


@triton.jit
def group_offsets(token, kv_head, stride_token, stride_head, row, dim, GROUP: tl.constexpr, HEAD_SIZE: tl.constexpr):
    """Where one token's query heads of one KV head lie, `[ROWS, HEAD_PADDED]`, and which of these places are real."""
    head = kv_head * GROUP + row
    token = tl.zeros([1], tl.int64) + token  # 64 bit; under the interpreter a loop counter is a plain Python number
    offsets = token[:, None] * stride_token + head[:, None] * stride_head + dim[None, :]
    return offsets, (row < GROUP)[:, None] & (dim < HEAD_SIZE)[None, :]


@triton.jit
def paged_decode_kernel(
    output,
    query,
    key,
    value,
    block_tables,
    seq_lens,
    query_start_loc,
    watch,
    scale,
    soft_cap,
    output_stride_token,
    output_stride_head: tl.constexpr,
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
    WINDOW: tl.constexpr,
    SOFT_CAP: tl.constexpr,
    PAGED: tl.constexpr,
    UPCAST: tl.constexpr,
    WATCH: tl.constexpr,
):
    kv_head = tl.program_id(0)
    request = tl.program_id(1)
    context = tl.load(seq_lens + request)
    first_token = tl.load(query_start_loc + request)
    end_token = tl.load(query_start_loc + request + 1)
    row = tl.arange(0, ROWS)
    dim = tl.arange(0, HEAD_PADDED)
    if WATCH:
        watch += (request * tl.num_programs(0) + kv_head).to(tl.int64) * watch_stride
        if WATCH == 2:
            watch_start(watch)

    # Decoding means one query a request. The loop costs nothing, and it leaves a request without a query alone: that is
    # how a captured CUDA graph, whose batch size is fixed, carries empty places.
    for token in range(first_token, end_token):
        end = context - (end_token - 1 - token)
        first = 0
        if WINDOW > 0:
            first = tl.maximum(end - WINDOW, 0)
        offsets, real = group_offsets(token, kv_head, query_stride_token, query_stride_head, row, dim, GROUP, HEAD_SIZE)
        q = tl.load(query + offsets, mask=real, other=0.0)
        if UPCAST:
            q = q.to(tl.float32)
        largest, total, weighted = attend_blocks(
            q,
            tl.zeros([ROWS], tl.int32) + (end - 1),
            first,
            end,
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
        result = weighted / total[:, None]
        offsets, real = group_offsets(
            token, kv_head, output_stride_token, output_stride_head, row, dim, GROUP, HEAD_SIZE
        )
        tl.store(output + offsets, result.to(output.dtype.element_ty), mask=real)

    if WATCH == 2:
        watch_end(watch)
