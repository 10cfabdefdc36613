"""What must hold before anything is read: a wrong table on a GPU is not an exception but somebody else's memory.

Shapes and types are checked at every call. Values (lengths, block ids, slots) are checked where they can be looked at:
on a CPU always. On a GPU looking makes everybody wait, so there the Triton back end looks only when `PAGEDLAB_DEBUG=1`
is set; the engine checks its own tables on the host, before it sends them (`ModelRunner`).
"""

from __future__ import annotations

import os
from typing import Any

import torch

from pagedlab.attention.backends import AttentionBackend
from pagedlab.errors import PagedlabError, is_real, is_whole, whole
from pagedlab.kernels.scale import check_scale

DTYPES = (torch.float32, torch.float16, torch.bfloat16)


def debug() -> bool:
    """True when the environment variable PAGEDLAB_DEBUG is 1: check every value, and wait for the device to do so."""
    return os.environ.get("PAGEDLAB_DEBUG") == "1"


def can_look(device: torch.device, backend: AttentionBackend) -> bool:
    """May values be looked at? Where that makes nobody wait, and where the back end looks at them anyway."""
    return device.type == "cpu" or backend.looks or debug()


def check_inputs(query, layer, block_tables, seq_lens, query_start_loc) -> None:
    """Refuse shapes, types and devices that `paged_attention` cannot mean. Raises PagedlabError with what was wrong and
    what is allowed."""
    check_layer(layer)
    check_tensors(query=query, block_tables=block_tables, seq_lens=seq_lens, query_start_loc=query_start_loc)
    key = layer.key
    if query.dim() != 3 or query.shape[1] == 0:
        raise PagedlabError(f"query has shape {list(query.shape)}; allowed is [tokens, query heads, head size].")
    if query.dtype != key.dtype:
        raise PagedlabError(
            f"query is {query.dtype}, K and V are {key.dtype}; allowed is one of float32, float16, bfloat16, the same "
            "for all."
        )
    if query.shape[2] != key.shape[3]:
        raise PagedlabError(f"query has head size {query.shape[2]} but the pool {key.shape[3]}; they must be the same.")
    if query.shape[1] % key.shape[2]:
        raise PagedlabError(
            f"{query.shape[1]} query heads cannot share {key.shape[2]} KV heads; query heads must be a multiple "
            "of KV heads."
        )
    check_last_dimension("query", query)
    for name, tensor, dims in (
        ("block_tables", block_tables, 2),
        ("seq_lens", seq_lens, 1),
        ("query_start_loc", query_start_loc, 1),
    ):
        if tensor.dtype != torch.int32 or tensor.dim() != dims:
            raise PagedlabError(
                f"{name} is {tensor.dtype} with {tensor.dim()} dimensions; allowed is torch.int32 with {dims}."
            )
        if tensor.shape[-1] > 1:
            check_last_dimension(name, tensor)
    if len(block_tables) != len(seq_lens) or len(query_start_loc) != len(seq_lens) + 1:
        raise PagedlabError(
            f"{len(block_tables)} block tables, {len(seq_lens)} seq_lens and {len(query_start_loc)} "
            "query_start_loc do not belong "
            "together; allowed are requests, requests and requests + 1."
        )
    if len({t.device for t in (query, key, block_tables, seq_lens, query_start_loc)}) > 1:
        raise PagedlabError("query, K, V, block_tables, seq_lens and query_start_loc must all be on one device.")


def check_tensors(**tensors: Any) -> None:
    """Each must be an ordinary tensor, with numbers in it."""
    for name, tensor in tensors.items():
        if not isinstance(tensor, torch.Tensor) or tensor.layout != torch.strided or tensor.is_meta:
            what = f"{type(tensor).__name__} ({tensor.layout}, {tensor.device})" if torch.is_tensor(tensor) else tensor
            raise PagedlabError(f"{name} is {what!r:.80}; it must be a dense torch.Tensor on a CPU or a GPU.")


def check_last_dimension(name: str, tensor: torch.Tensor) -> None:
    if tensor.stride(-1) != 1:
        raise PagedlabError(
            f"{name}'s last dimension is not contiguous (stride {tensor.stride(-1)}); call .contiguous() first."
        )


def check_layer(layer) -> None:
    """K and V must be a layer of a pool."""
    key, value = getattr(layer, "key", None), getattr(layer, "value", None)
    if key is None or value is None:
        raise PagedlabError(
            f"{type(layer).__name__} is no layer of a pool; give KVPool.layer(i), or LayerKV(key, value)."
        )
    check_tensors(K=key, V=value)
    if key.dim() != 4 or key.shape != value.shape or not key.numel():
        raise PagedlabError(
            f"K has shape {list(key.shape)} and V {list(value.shape)}; both must be [blocks, block size, KV "
            "heads, head size], none of them 0."
        )
    if key.dtype not in DTYPES or value.dtype != key.dtype or value.device != key.device:
        raise PagedlabError(
            f"K is {key.dtype} on {key.device}, V {value.dtype} on {value.device}; allowed is one of float32, float16, "
            "bfloat16, the same for both, on one device."
        )
    check_last_dimension("K", key)
    check_last_dimension("V", value)


def check_options(scale: Any, sliding_window: Any, soft_cap: Any) -> tuple[float, int | None, float | None]:
    """The three as plain numbers. Raises PagedlabError for a number with which no attention can be meant."""
    if sliding_window is not None and (not is_whole(sliding_window) or sliding_window < 1):
        raise PagedlabError(
            f"sliding_window is {sliding_window!r:.60}; it must be a whole number of at least 1 (a token sees itself), "
            "or None."
        )
    return (
        check_scale(scale),
        None if sliding_window is None else whole(sliding_window, "sliding_window"),
        None if soft_cap is None else _above_zero("soft_cap", soft_cap),
    )


def _above_zero(name: str, number: Any) -> float:
    """As a plain float. It is used in float32, where it must be neither 0 nor infinite."""
    limits = torch.finfo(torch.float32)
    if not is_real(number) or not limits.tiny <= number <= limits.max:  # NaN is refused, too
        raise PagedlabError(
            f"{name} is {number!r:.60}; it must be a number above 0, from {limits.tiny:.1e} to {limits.max:.1e}, or "
            "None."
        )
    return float(number)


def check_values(num_queries: int, layer, block_tables, seq_lens, query_start_loc) -> None:
    """Lengths and starts against each other and the table, block ids against the pool. All on the CPU, or waited
    for."""
    lengths, starts = seq_lens.tolist(), query_start_loc.tolist()
    room = block_tables.shape[1] * layer.block_size
    if starts[0] != 0 or starts[-1] != num_queries:
        raise PagedlabError(
            f"query_start_loc goes from {starts[0]} to {starts[-1]}; it must go from 0 to {num_queries}, the "
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
    check_block_ids(layer, block_tables, seq_lens)


def check_block_ids(layer, block_tables, seq_lens) -> None:
    """Every entry that a request's length makes valid must be a block of the pool; the others may hold anything."""
    if block_tables.numel() == 0:
        return
    lowest, highest = block_tables.aminmax()
    if lowest >= 0 and highest < layer.num_blocks:
        return  # the usual case, quickly: what others left behind are blocks, too
    used = (seq_lens.long() + layer.block_size - 1) // layer.block_size
    valid = torch.arange(block_tables.shape[1], device=block_tables.device) < used[:, None]
    wrong = (valid & ((block_tables < 0) | (block_tables >= layer.num_blocks))).nonzero()
    if len(wrong):
        r, logical = wrong[0].tolist()
        raise PagedlabError(
            f"request {r}, logical block {logical}: physical block {int(block_tables[r, logical])} is not in the pool; "
            f"ids go from 0 to {layer.num_blocks - 1}."
        )
