"""Which kernel runs for which batch?

One query a request: decode, in one pass or split over the context (`kernels/tuning.py: splits_for`). Anything else,
prompts, chunks and mixtures with decoding requests: prefill. The choice uses only what the host knows without asking
the GPU (numbers of tokens and requests, the width of the table), so that a step never waits and can be captured in a
CUDA graph.
"""

from __future__ import annotations

import torch

from pagedlab.errors import PagedlabError
from pagedlab.kernels.decode import paged_decode_kernel
from pagedlab.kernels.decode_split import merge_splits_kernel, paged_decode_split_kernel
from pagedlab.kernels.launch import check_launch, launch, padded, processors, rows_for, upcast
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
    capability, scale = check_launch(query, layer), check_scale(scale)
    tuning = tuning or decode_tuning(capability, query.dtype, layer.head_size)
    requests, (tokens, query_heads, head_size) = len(seq_lens), query.shape
    group = query_heads // layer.num_kv_heads
    if splits is None:
        max_context = block_tables.shape[1] * layer.block_size
        splits = splits_for(requests * layer.num_kv_heads, max_context, tuning.tile, processors(query.device))
    if splits < 1:
        raise PagedlabError(f"splits is {splits}; a context is cut into at least 1 part.")
    if watch is not None:
        check_log(watch, (requests, layer.num_kv_heads, splits), block_tables.shape[1])
    output = torch.empty_like(query, memory_format=torch.contiguous_format)
    common = (
        query, layer.key, layer.value, block_tables, seq_lens, query_start_loc, watch, scale, soft_cap or 0.0,
    )  # fmt: skip
    strides = (
        *query.stride()[:2], *layer.key.stride()[:3], *layer.value.stride()[:3], block_tables.stride(0),
        0 if watch is None else watch.stride(2),
    )  # fmt: skip
    constants = dict(
        BLOCK_SIZE=layer.block_size,
        GROUP=group,
        ROWS=rows_for(group, query.dtype, capability),
        HEAD_SIZE=head_size,
        HEAD_PADDED=padded(head_size),
        TILE=tuning.tile,
        WINDOW=sliding_window or 0,
        SOFT_CAP=soft_cap is not None,
        PAGED=paged,
        UPCAST=upcast(query.dtype),
        WATCH=0 if watch is None else (1 if capability is None else 2),
        num_warps=tuning.warps,
        num_stages=tuning.stages,
    )
    if splits == 1:
        grid = (layer.num_kv_heads, requests)
        launch(paged_decode_kernel, grid, output, *common, *output.stride()[:2], *strides, **constants)
        return output
    partial_output = query.new_empty(tokens, query_heads, splits, head_size, dtype=torch.float32)
    largest, total = query.new_empty(2, tokens, query_heads, splits, dtype=torch.float32)
    grid = (layer.num_kv_heads, requests, splits)
    parts = (partial_output, largest, total)
    launch(paged_decode_split_kernel, grid, *parts, *common, *strides, SPLITS=splits, **constants)
    launch(
        merge_splits_kernel,
        (query_heads, requests),
        output,
        partial_output,
        largest,
        total,
        seq_lens,
        query_start_loc,
        *output.stride()[:2],
        HEAD_SIZE=head_size,
        HEAD_PADDED=padded(head_size),
        TILE=tuning.tile,
        SPLITS=splits,
        SPLITS_PADDED=padded(splits),
        WINDOW=sliding_window or 0,
        num_warps=4,
    )
    return output


def prefill(query, layer, block_tables, seq_lens, query_start_loc, scale, sliding_window=None, soft_cap=None):
    """Attention of requests with any number of queries each."""
    capability, scale = check_launch(query, layer), check_scale(scale)
    rows, tuning = prefill_tuning(capability, query.dtype, layer.head_size)
    group = query.shape[1] // layer.num_kv_heads
    output = torch.empty_like(query, memory_format=torch.contiguous_format)
    grid = (layer.num_kv_heads, len(query) // (rows // group) + len(seq_lens))
    launch(
        paged_prefill_kernel,
        grid,
        output,
        query,
        layer.key,
        layer.value,
        block_tables,
        seq_lens,
        query_start_loc,
        len(seq_lens),
        scale,
        soft_cap or 0.0,
        *output.stride()[:2],
        *query.stride()[:2],
        *layer.key.stride()[:3],
        *layer.value.stride()[:3],
        block_tables.stride(0),
        BLOCK_SIZE=layer.block_size,
        GROUP=group,
        ROWS=rows,
        HEAD_SIZE=layer.head_size,
        HEAD_PADDED=padded(layer.head_size),
        TILE=tuning.tile,
        WINDOW=sliding_window or 0,
        SOFT_CAP=soft_cap is not None,
        UPCAST=upcast(query.dtype),
        num_warps=tuning.warps,
        num_stages=tuning.stages,
    )
    return output
