"""What must hold before anything is read: a wrong table on a GPU is not an exception but somebody else's memory.

Shapes and types are checked at every call. Values (lengths, block ids) live on the device, and looking at them makes a
GPU wait; so there they are looked at only when `PAGEDLAB_DEBUG=1` is set. On a CPU lengths are always checked.
"""

from __future__ import annotations

import os

import torch

from pagedlab.errors import PagedlabError

DTYPES = (torch.float32, torch.float16, torch.bfloat16)


def debug() -> bool:
    """True when the environment variable PAGEDLAB_DEBUG is 1: check every value, and wait for the device to do so."""
    return os.environ.get("PAGEDLAB_DEBUG") == "1"


def check_inputs(query, layer, block_tables, seq_lens, query_start_loc, sliding_window, soft_cap) -> None:
    """Refuse what `paged_attention` cannot mean. Raises PagedlabError with what was wrong and what is allowed."""
    key, value = layer.key, layer.value
    if query.dim() != 3:
        raise PagedlabError(f"query has shape {list(query.shape)}; allowed is [tokens, query heads, head size].")
    if key.dim() != 4 or key.shape != value.shape:
        raise PagedlabError(
            f"K has shape {list(key.shape)} and V {list(value.shape)}; both must be [blocks, block size, KV "
            "heads, head size]."
        )
    if query.dtype not in DTYPES or key.dtype != query.dtype or value.dtype != query.dtype:
        raise PagedlabError(
            f"query is {query.dtype}, K {key.dtype}, V {value.dtype}; allowed is one of float32, float16, "
            "bfloat16, the same for all."
        )
    if query.shape[2] != key.shape[3]:
        raise PagedlabError(f"query has head size {query.shape[2]} but the pool {key.shape[3]}; they must be the same.")
    if query.shape[1] % key.shape[2]:
        raise PagedlabError(
            f"{query.shape[1]} query heads cannot share {key.shape[2]} KV heads; query heads must be a multiple "
            "of KV heads."
        )
    for name, tensor in (("query", query), ("K", key), ("V", value)):
        if tensor.stride(-1) != 1:
            raise PagedlabError(
                f"{name}'s last dimension is not contiguous (stride {tensor.stride(-1)}); call .contiguous() first."
            )
    for name, tensor, dims in (
        ("block_tables", block_tables, 2),
        ("seq_lens", seq_lens, 1),
        ("query_start_loc", query_start_loc, 1),
    ):
        if tensor.dim() == dims and tensor.shape[-1] > 1 and tensor.stride(-1) != 1:
            raise PagedlabError(f"{name}'s last dimension is not contiguous; call .contiguous() first.")
        if tensor.dtype != torch.int32 or tensor.dim() != dims:
            raise PagedlabError(
                f"{name} is {tensor.dtype} with {tensor.dim()} dimensions; allowed is torch.int32 with {dims}."
            )
    if len(block_tables) != len(seq_lens) or len(query_start_loc) != len(seq_lens) + 1:
        raise PagedlabError(
            f"{len(block_tables)} block tables, {len(seq_lens)} seq_lens and {len(query_start_loc)} "
            "query_start_loc do not belong "
            "together; allowed are requests, requests and requests + 1."
        )
    if len({t.device for t in (query, key, value, block_tables, seq_lens, query_start_loc)}) > 1:
        raise PagedlabError("query, K, V, block_tables, seq_lens and query_start_loc must all be on one device.")
    if sliding_window is not None and sliding_window < 1:
        raise PagedlabError(
            f"sliding_window is {sliding_window}; it must be at least 1 (a token sees itself), or None."
        )
    if soft_cap is not None and not soft_cap > 0:
        raise PagedlabError(f"soft_cap is {soft_cap}; it must be above 0, or None.")
    if query.device.type == "cpu" or debug():
        check_values(query, layer, block_tables, seq_lens, query_start_loc)


def check_values(query, layer, block_tables, seq_lens, query_start_loc) -> None:
    """Lengths and starts against each other and the table; block ids against the pool under PAGEDLAB_DEBUG=1."""
    lengths, starts = seq_lens.tolist(), query_start_loc.tolist()
    room = block_tables.shape[1] * layer.block_size
    if starts[0] != 0 or starts[-1] != len(query):
        raise PagedlabError(
            f"query_start_loc goes from {starts[0]} to {starts[-1]}; it must go from 0 to {len(query)}, the "
            "number of queries."
        )
    for r, length in enumerate(lengths):
        queries = starts[r + 1] - starts[r]
        if not 0 <= queries <= length:
            raise PagedlabError(
                f"request {r} has {queries} queries and a context of {length} tokens; allowed is 0 <= queries "
                "<= context."
            )
        if length > room:
            raise PagedlabError(
                f"request {r} has {length} tokens but its block table has room for {room} "
                f"({block_tables.shape[1]} blocks of "
                f"{layer.block_size}); give it a longer table."
            )
    if debug():
        check_block_ids(layer, block_tables, lengths)


def check_block_ids(layer, block_tables, lengths) -> None:
    """Every entry that a request's length makes valid must be a block of the pool; the others may hold anything."""
    for r, length in enumerate(lengths):
        used = -(-length // layer.block_size)
        for logical, physical in enumerate(block_tables[r, :used].tolist()):
            if not 0 <= physical < layer.num_blocks:
                raise PagedlabError(
                    f"request {r}, logical block {logical}: physical block {physical} is not in the pool; ids "
                    "go from 0 to "
                    f"{layer.num_blocks - 1}."
                )
