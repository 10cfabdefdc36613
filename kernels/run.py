"""Which kernel runs for which batch?

One query a request: decode, in one pass or split over the context (`kernels/tuning.py: splits_for`). Anything else,
prompts, chunks and mixtures with decoding requests: prefill. The choice uses only what the host knows without asking
the GPU (numbers of tokens and requests, the width of the table), so that a step never waits and can be captured in a
CUDA graph.

Strides of heads, and of tokens in the pool, are constants of a binary. Of a number that comes with the launch Triton
knows only whether it is a multiple of 16, and head sizes of 72, 104 or 120 make strides of 8 times an odd number: it
would load two bytes at once instead of 16. These strides never change while a model runs.
"""

from __future__ import annotations

import torch

from pagedlab.errors import PagedlabError
from pagedlab.kernels.decode import paged_decode_kernel
from pagedlab.kernels.decode_split import merge_splits_kernel, paged_decode_split_kernel
from pagedlab.kernels.launch import Launch, check_launch, kept, padded, processors, rows_for, upcast
from pagedlab.kernels.prefill import paged_prefill_kernel
from pagedlab.kernels.scale import check_scale
from pagedlab.kernels.tuning import decode_tuning, prefill_tuning, splits_for
from pagedlab.kernels.watch import check_log


def attention(query, layer, block_tables, seq_lens, query_start_loc, scale, sliding_window=None, soft_cap=None):
    """See `pagedlab.attention.paged_attention`; here with `scale` given."""
    if len(query) == 0:
        return torch.empty_like(query)
    run = decode if len(query) == len(seq_lens) else prefill
    return run(query, layer, block_tables, seq_lens, query_start_loc, scale, sliding_window, soft_cap)


def shapes(query, layer, block_tables, seq_lens) -> tuple:
    """All of a batch that launches follow from."""
    key, value = layer.key, layer.value
    pool = (key.shape, key.stride(), value.stride())
    tables = (block_tables.shape, block_tables.stride(0), len(seq_lens))
    return (query.device, query.dtype, query.shape, query.stride(), *pool, *tables)


def decode(
    query,
    layer,
    block_tables,
    seq_lens,
    query_start_loc,
    scale,
    sliding_window=None,
    soft_cap=None,
    *,
    splits=None,
    tuning=None,
    paged=True,
    watch=None,
):
    """Decode attention. What the caller of `paged_attention` never needs, measurements and lessons do:

    splits   parts that each context is cut into; None chooses, 1 is the one-pass kernel
    tuning   a `Tuning` instead of the table's
    paged    False: each request's blocks are neighbours in memory, and only its first table entry is read
    watch    a log from `watch.new_log(requests, KV heads, splits, max blocks, device)`, which the kernel fills
    """
    options = (sliding_window, soft_cap is not None, splits, tuning, paged, None if watch is None else watch.numel())
    same = (decode, *shapes(query, layer, block_tables, seq_lens), *options)
    attend, merge = kept(lambda: _decode_launches(query, layer, block_tables, len(seq_lens), *options), same)
    output = torch.empty_like(query, memory_format=torch.contiguous_format)
    arguments = (
        query, layer.key, layer.value, block_tables, seq_lens, query_start_loc, watch, check_scale(scale),
        soft_cap or 0.0,
    )  # fmt: skip
    parts = attend.grid[2]
    if watch is not None:
        check_log(watch, (len(seq_lens), layer.num_kv_heads, parts), block_tables.shape[1])
    if parts == 1:
        attend(output, *arguments)
        return output
    tokens, query_heads, head_size = query.shape
    partial_output = query.new_empty(tokens, query_heads, parts, head_size, dtype=torch.float32)
    largest, total = query.new_empty(2, tokens, query_heads, parts, dtype=torch.float32)
    attend(partial_output, largest, total, *arguments)
    merge(output, partial_output, largest, total, seq_lens, query_start_loc)
    return output


def _decode_launches(query, layer, block_tables, requests, sliding_window, capped, splits, tuning, paged, watched):
    capability = check_launch(query, layer)
    tuning = tuning or decode_tuning(capability, query.dtype, layer.head_size)
    _, query_heads, head_size = query.shape
    if splits is None:
        max_context = block_tables.shape[1] * layer.block_size
        splits = splits_for(requests * layer.num_kv_heads, max_context, tuning.tile, processors(query.device))
    if splits < 1:
        raise PagedlabError(f"splits is {splits}; a context is cut into at least 1 part.")
    common = dict(
        HEAD_SIZE=head_size, HEAD_PADDED=padded(head_size), TILE=tuning.tile, WINDOW=sliding_window or 0,
    )  # fmt: skip
    numbers = (
        *query.stride()[:2], *layer.key.stride()[:3], *layer.value.stride()[:3], block_tables.stride(0),
        (watched or 0) // (requests * layer.num_kv_heads * splits),
    )  # fmt: skip
    group = query_heads // layer.num_kv_heads
    constants = common | dict(
        BLOCK_SIZE=layer.block_size,
        GROUP=group,
        ROWS=rows_for(group, query.dtype, capability),
        SOFT_CAP=capped,
        PAGED=paged,
        UPCAST=upcast(query.dtype),
        WATCH=0 if watched is None else (1 if capability is None else 2),
        num_warps=tuning.warps,
        num_stages=tuning.stages,
    )
    of_output = (query_heads * head_size, head_size)
    if splits == 1:
        grid = (layer.num_kv_heads, requests)
        return Launch(paged_decode_kernel, grid, *of_output, *numbers, **constants), None
    grid = (layer.num_kv_heads, requests, splits)
    merging = common | dict(SPLITS=splits, SPLITS_PADDED=padded(splits), num_warps=4)
    return (
        Launch(paged_decode_split_kernel, grid, *numbers, SPLITS=splits, **constants),
        Launch(merge_splits_kernel, (query_heads, requests), *of_output, **merging),
    )


def prefill(query, layer, block_tables, seq_lens, query_start_loc, scale, sliding_window=None, soft_cap=None):
    """Attention of requests with any number of queries each."""
    options = (sliding_window, soft_cap is not None)
    same = (prefill, *shapes(query, layer, block_tables, seq_lens), *options)
    run = kept(lambda: _prefill_launch(query, layer, block_tables, len(seq_lens), *options), same)
    output = torch.empty_like(query, memory_format=torch.contiguous_format)
    places = (block_tables, seq_lens, query_start_loc)
    run(output, query, layer.key, layer.value, *places, check_scale(scale), soft_cap or 0.0)
    return output


def _prefill_launch(query, layer, block_tables, requests, sliding_window, capped):
    capability = check_launch(query, layer)
    tokens, query_heads, head_size = query.shape
    rows, tuning = prefill_tuning(capability, query.dtype, head_size)
    group = query_heads // layer.num_kv_heads
    return Launch(
        paged_prefill_kernel,
        (layer.num_kv_heads, tokens // (rows // group) + requests),
        requests,
        query_heads * head_size,
        head_size,
        *query.stride()[:2],
        *layer.key.stride()[:3],
        *layer.value.stride()[:3],
        block_tables.stride(0),
        BLOCK_SIZE=layer.block_size,
        GROUP=group,
        ROWS=rows,
        HEAD_SIZE=head_size,
        HEAD_PADDED=padded(head_size),
        TILE=tuning.tile,
        WINDOW=sliding_window or 0,
        SOFT_CAP=capped,
        UPCAST=upcast(query.dtype),
        num_warps=tuning.warps,
        num_stages=tuning.stages,
    )
