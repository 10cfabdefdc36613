"""How fast can plain torch read scattered blocks on a CPU?

Torch's attention wants K and V as ordinary tensors, so blocks have to be brought together first. Three things keep
that cheap:

* neighbours need no copy: when a request's blocks lie one after the other, its K and V are a view of the pool;
* one buffer, used again and again: fresh memory for every gather costs more (page faults) than the copy itself;
* decoding requests of about equal length go through one call, because a call costs as much as reading 128 tokens or
  more.

The query heads that share a KV head are treated as several queries of that head, so that K and V are never repeated.
"""

from __future__ import annotations

import threading

import torch
import torch.nn.functional as F

SAME_CALL_WASTE = 128  # padding (in tokens) that is cheaper than a call of its own; measured on one core of an AMD EPYC
SCRATCH_BYTES = 4 << 20  # K and V gathered for one call: small enough to stay near the processor

_scratch = threading.local()


def attention(query, layer, block_tables, seq_lens, query_start_loc, scale, sliding_window=None, soft_cap=None):
    """See `pagedlab.attention.paged_attention`; here with `scale` given."""
    output = torch.empty_like(query)
    starts, lengths = query_start_loc.tolist(), seq_lens.tolist()
    decoding = []
    for r, context in enumerate(lengths):
        queries = starts[r + 1] - starts[r]
        if queries == 1:
            decoding.append(r)
        elif queries > 1:
            rows = slice(starts[r], starts[r + 1])
            output[rows] = _prefill(query[rows], layer, block_tables[r], context, scale, sliding_window, soft_cap)
    for group in _groups(decoding, lengths, layer):
        rows = torch.tensor([starts[r] for r in group], device=query.device)
        output[rows] = _decode(query[rows], layer, block_tables, group, lengths, scale, sliding_window, soft_cap)
    return output


def _groups(requests, lengths, layer):
    """Split decoding requests into calls: longest first, each call padded to its longest."""
    most_tokens = SCRATCH_BYTES // (2 * layer.num_kv_heads * layer.head_size * layer.key.element_size())
    groups = []
    for r in sorted(requests, key=lambda r: -lengths[r]):
        if groups:
            longest = lengths[groups[-1][0]]
            if longest - lengths[r] <= SAME_CALL_WASTE and (len(groups[-1]) + 1) * longest <= most_tokens:
                groups[-1].append(r)
                continue
        groups.append([r])
    return groups


def _prefill(query, layer, table, context, scale, sliding_window, soft_cap):
    """One request with several queries `[queries, query heads, head size]`."""
    queries, query_heads, head_size = query.shape
    kv_heads = layer.num_kv_heads
    # The earliest query is the one that sees furthest back.
    first = 0 if sliding_window is None else max(0, context - queries + 1 - sliding_window)
    key, value = _read_one(layer, table, first, context)
    # [KV heads, query heads of each, tokens, head size]; all query heads of a KV head see the same K and V (stride 0).
    query = query.transpose(0, 1).reshape(kv_heads, query_heads // kv_heads, queries, head_size)
    key = key.transpose(0, 1)[:, None].expand(-1, query.shape[1], -1, -1)
    value = value.transpose(0, 1)[:, None].expand(-1, query.shape[1], -1, -1)
    if queries == context and sliding_window is None and soft_cap is None:
        result = F.scaled_dot_product_attention(query, key, value, is_causal=True, scale=scale)
    else:
        position = torch.arange(first, context, device=query.device)
        query_position = torch.arange(context - queries, context, device=query.device)[:, None]
        visible = position <= query_position
        if sliding_window is not None:
            visible &= position > query_position - sliding_window
        result = _attend(query, key, value, visible, scale, soft_cap)
    return result.reshape(query_heads, queries, head_size).transpose(0, 1)


def _decode(query, layer, block_tables, group, lengths, scale, sliding_window, soft_cap):
    """Requests with one query each, `[requests, query heads, head size]`, in one call."""
    kv_heads = layer.num_kv_heads
    firsts = [0 if sliding_window is None else max(0, lengths[r] - sliding_window) for r in group]
    counts = [lengths[r] - first for r, first in zip(group, firsts, strict=True)]
    visible = None
    if len(group) == 1:
        key, value = _read_one(layer, block_tables[group[0]], firsts[0], lengths[group[0]])
        key, value = key[None], value[None]
    else:
        longest = max(counts)
        position = torch.arange(longest, device=query.device)
        visible = position < torch.tensor(counts, device=query.device)[:, None]
        # Padding reads the request's own first visible token again: that was surely written, so no NaN can come in.
        position = torch.where(visible, position, 0) + torch.tensor(firsts, device=query.device)[:, None]
        table = block_tables[torch.tensor(group, device=query.device)].long()
        slots = table.gather(1, position // layer.block_size) * layer.block_size + position % layer.block_size
        key, value = (t.view(len(group), longest, *t.shape[1:]) for t in _gather(layer, slots.flatten()))
        visible = visible[:, None, None, :]
    # The query heads of one KV head become its "queries": [requests, KV heads, query heads of each, head size].
    grouped = query.view(len(group), kv_heads, -1, query.shape[-1])
    return _attend(grouped, key.transpose(1, 2), value.transpose(1, 2), visible, scale, soft_cap).reshape(query.shape)


def _attend(query, key, value, visible, scale, soft_cap):
    if soft_cap is None:
        return F.scaled_dot_product_attention(query, key, value, attn_mask=visible, scale=scale)
    score = torch.matmul(query.float() * scale, key.float().transpose(-1, -2))
    score = soft_cap * torch.tanh(score / soft_cap)
    if visible is not None:
        score = score.masked_fill(~visible, float("-inf"))
    return torch.matmul(torch.softmax(score, dim=-1), value.float()).to(query.dtype)


def _read_one(layer, table, first, end):
    """K and V of tokens first..end of one request, `[tokens, KV heads, head size]`: a view if blocks are neighbours."""
    block_size = layer.block_size
    first_block, end_block = first // block_size, -(-end // block_size)
    blocks = table[first_block:end_block].tolist()
    if blocks == list(range(blocks[0], blocks[0] + len(blocks))) and _has_rows(layer):
        start = blocks[0] * block_size + first % block_size
        return tuple(t.flatten(0, 1)[start : start + end - first] for t in (layer.key, layer.value))
    position = torch.arange(first, end, device=table.device)
    return _gather(layer, table.long()[position // block_size] * block_size + position % block_size)


def _has_rows(layer):
    """True when the pool's slots are equally spaced rows of memory, so that `flatten` is a view (NHD; not HND)."""
    return all(t.stride(0) == t.shape[1] * t.stride(1) for t in (layer.key, layer.value))


def _gather(layer, slots):
    """K and V of these slots, each `[slots, KV heads, head size]`."""
    if not _has_rows(layer):
        block, offset = slots // layer.block_size, slots % layer.block_size
        return layer.key[block, offset], layer.value[block, offset]
    return tuple(
        torch.index_select(t.flatten(0, 1), 0, slots, out=_buffer(which, len(slots), t))
        for which, t in (("key", layer.key), ("value", layer.value))
    )


def _buffer(which, rows, like):
    """A part of this thread's scratch memory, made larger when it is too small."""
    name = (which, like.dtype, like.device, tuple(like.shape[2:]))
    buffers = _scratch.__dict__
    if name not in buffers or len(buffers[name]) < rows:
        with torch.inference_mode(False):  # made in inference mode, it could not be written outside of it
            buffers[name] = torch.empty(rows, *like.shape[2:], dtype=like.dtype, device=like.device)
    return buffers[name][:rows]
