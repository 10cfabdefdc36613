"""How do many new tokens attend at once, when part of their context is already in blocks?

A prompt, a chunk of a prompt, or the rest of a prompt whose beginning was found in the prefix cache: always `queries`
new tokens, the last ones of a context of `context` tokens, each of which sees everything up to itself. K and V of the
new tokens are in the pool already, so there is one source to read from.

One program takes QUERIES neighbouring tokens of one request and one KV head. Its rows are all (token, query head)
pairs of these:

    row i   is token i // GROUP of the tile, query head kv_head * GROUP + i % GROUP       (QUERIES = ROWS // GROUP)

so that one tile of K serves them all, by tensor cores, and a group of 3 or 9 leaves at most a few rows unused. It
reads positions from 0 (or from where the first row's sliding window begins) to its last token's own.

The batch is ragged and its lengths are on the GPU, so the host cannot know how many programs each request needs. But
request r needs at most queries / QUERIES + 1, so if it owns the programs from query_start_loc[r] // QUERIES + r on, no
two requests overlap, and tokens // QUERIES + requests programs are enough. A program finds its request by binary
search; the few left over return.
"""

import triton
import triton.language as tl

from pagedlab.kernels.attend_blocks import attend_blocks


@triton.jit
def find_request(query_start_loc, program, num_requests, QUERIES: tl.constexpr):
    """The last request whose first program, query_start_loc[r] // QUERIES + r, is not after `program`."""
    low = program * 0
    high = num_requests
    while high - low > 1:
        middle = (low + high) // 2
        if tl.load(query_start_loc + middle) // QUERIES + middle <= program:
            low = middle
        else:
            high = middle
    return low


@triton.jit
def paged_prefill_kernel(
    output,
    query,
    key,
    value,
    block_tables,
    seq_lens,
    query_start_loc,
    scale,
    soft_cap,
    num_requests,
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
    BLOCK_SIZE: tl.constexpr,
    GROUP: tl.constexpr,
    ROWS: tl.constexpr,
    HEAD_SIZE: tl.constexpr,
    HEAD_PADDED: tl.constexpr,
    TILE: tl.constexpr,
    WINDOW: tl.constexpr,
    SOFT_CAP: tl.constexpr,
    UPCAST: tl.constexpr,
):
    QUERIES: tl.constexpr = ROWS // GROUP
    kv_head = tl.program_id(0)
    program = tl.program_id(1)
    request = find_request(query_start_loc, program, num_requests, QUERIES)
    first_token = tl.load(query_start_loc + request)
    queries = tl.load(query_start_loc + request + 1) - first_token
    # This program's tokens, counted from the request's first query.
    tile_first = (program - (first_token // QUERIES + request)) * QUERIES
    if tile_first < queries:
        row = tl.arange(0, ROWS)
        dim = tl.arange(0, HEAD_PADDED)
        index = tile_first + row // GROUP
        real = (row // GROUP < QUERIES) & (index < queries)
        token = (first_token + index).to(tl.int64)
        head = kv_head * GROUP + row % GROUP
        inside = real[:, None] & (dim < HEAD_SIZE)[None, :]
        offsets = token[:, None] * query_stride_token + head[:, None] * query_stride_head + dim[None, :]
        q = tl.load(query + offsets, mask=inside, other=0.0)
        if UPCAST:
            q = q.to(tl.float32)

        context = tl.load(seq_lens + request)
        first_position = context - queries  # where the request's first query stands
        last = tl.minimum(tile_first + QUERIES, queries) - 1
        first = 0
        if WINDOW > 0:
            first = tl.maximum(first_position + tile_first - (WINDOW - 1), 0)
        largest, total, weighted = attend_blocks(
            q,
            first_position + index,
            first,
            first_position + last + 1,
            key + kv_head.to(tl.int64) * key_stride_head,
            value + kv_head.to(tl.int64) * value_stride_head,
            block_tables + request.to(tl.int64) * table_stride,
            key_stride_block,
            key_stride_token,
            value_stride_block,
            value_stride_token,
            scale,
            soft_cap,
            None,
            BLOCK_SIZE,
            HEAD_SIZE,
            HEAD_PADDED,
            TILE,
            WINDOW,
            SOFT_CAP,
            True,
            UPCAST,
            0,
        )
        result = weighted / tl.where(real, total, 1.0)[:, None]
        offsets = token[:, None] * output_stride_token + head[:, None] * output_stride_head + dim[None, :]
        tl.store(output + offsets, result.to(output.dtype.element_ty), mask=inside)
