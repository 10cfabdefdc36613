"""How fast can plain torch read scattered blocks on a CPU?

Torch's attention wants K and V as ordinary tensors, so blocks have to be brought together first. Four things keep
that cheap:

* neighbours need no copy: when a request's blocks lie one after the other, its K and V are a view of the pool;
* one buffer, used again and again: fresh memory for every gather costs more (page faults) than the copy itself, and
  a small one is still in the processor's cache when it is read;
* decoding requests of about equal length go through one call, because a call costs as much as reading 128 tokens or
  more;
* where to read is worked out once a step, not once a layer: that is a `Plan`.

The query heads that share a KV head are treated as several queries of that head, so that K and V are never repeated.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from pagedlab.attention.backends import AttentionBackend

SAME_CALL_WASTE = 128  # padding (in tokens) that is cheaper than a call of its own; measured on one core of an AMD EPYC
SCRATCH_BYTES = 2 << 20  # K and V gathered for one call: small enough to stay near the processor
SCRATCH_BYTES_OF_A_GPU = 256 << 20  # few calls, and a bound on memory; without Triton only

_scratch = threading.local()


def attention(query, layer, block_tables, seq_lens, query_start_loc, scale, sliding_window=None, soft_cap=None):
    """See `pagedlab.attention.paged_attention`; here with `scale` given."""
    return Plan(layer, block_tables, seq_lens, query_start_loc, sliding_window).run(query, layer, scale, soft_cap)


class Plan:
    """What is the same in every layer of a step: which rows of the query go together, and where their K and V lie.

    layer: any layer of the pool. The plan holds for all that have its shape and strides, as long as tables, lengths
    and starts are what they were when it was made.
    """

    def __init__(self, layer, block_tables, seq_lens, query_start_loc, sliding_window=None):
        starts, lengths = query_start_loc.tolist(), seq_lens.tolist()
        device = block_tables.device
        self.prefills, self.decodes, decoding = [], [], []
        for r, context in enumerate(lengths):
            queries = starts[r + 1] - starts[r]
            if queries == 1:
                decoding.append(r)
            elif queries > 1:
                # The earliest query is the one that sees furthest back.
                first = 0 if sliding_window is None else max(0, context - queries + 1 - sliding_window)
                visible = None
                if queries < context or sliding_window is not None:
                    position = torch.arange(first, context, device=device)
                    query_position = torch.arange(context - queries, context, device=device)[:, None]
                    visible = position <= query_position
                    if sliding_window is not None:
                        visible &= position > query_position - sliding_window
                    visible = _as_summand(visible, layer)
                place = _place_of_one(layer, block_tables[r], first, context)
                self.prefills.append((slice(starts[r], starts[r + 1]), place, visible))
        self.plan_decodes(layer, block_tables, lengths, starts, decoding, sliding_window)

    def plan_decodes(self, layer, block_tables, lengths, starts, decoding, sliding_window):
        """Of the requests `decoding`, which have one query each: those of about equal length in one call."""
        device = block_tables.device
        for group in _groups(decoding, lengths, layer):
            firsts = [0 if sliding_window is None else max(0, lengths[r] - sliding_window) for r in group]
            rows = [starts[r] for r in group]
            whole = rows == list(range(starts[-1]))  # all of the batch, in its order: nothing to pick out
            rows = None if whole else torch.tensor(rows, device=device)
            if len(group) == 1:
                place = _place_of_one(layer, block_tables[group[0]], firsts[0], lengths[group[0]])
            else:
                place = _place_of_group(layer, block_tables, group, firsts, [lengths[r] for r in group])
            self.decodes.append((rows, place))

    def run(self, query, layer, scale, soft_cap=None):
        """Attention of `query [tokens, query heads, head size]` over one layer."""
        if self.decodes and self.decodes[0][0] is None:
            return _decode(query, self.decodes[0][1], layer, scale, soft_cap)
        output = torch.empty(query.shape, dtype=query.dtype, device=query.device)
        for rows, place, visible in self.prefills:
            output[rows] = _prefill(query[rows], *place.read(layer), visible, scale, soft_cap)
        self.run_decodes(output, query, layer, scale, soft_cap)
        return output

    def run_decodes(self, output, query, layer, scale, soft_cap):
        """Write the rows of those requests into `output`."""
        for rows, place in self.decodes:
            output[rows] = _decode(query[rows], place, layer, scale, soft_cap)


def _groups(requests, lengths, layer):
    """Split decoding requests into calls, each padded to its longest; all together in their order where that can be."""
    scratch = SCRATCH_BYTES if layer.key.device.type == "cpu" else SCRATCH_BYTES_OF_A_GPU
    most_tokens = scratch // (2 * layer.num_kv_heads * layer.head_size * layer.key.element_size())
    if not requests:
        return []
    longest = max(lengths[r] for r in requests)
    if longest - min(lengths[r] for r in requests) <= SAME_CALL_WASTE and len(requests) * longest <= most_tokens:
        return [requests]
    groups = []
    for r in sorted(requests, key=lambda r: -lengths[r]):
        if groups:
            longest = lengths[groups[-1][0]]
            if longest - lengths[r] <= SAME_CALL_WASTE and (len(groups[-1]) + 1) * longest <= most_tokens:
                groups[-1].append(r)
                continue
        groups.append([r])
    return groups


def _prefill(query, key, value, visible, scale, soft_cap):
    """One request: `query [queries, query heads, head size]`, key and value `[1, KV heads, tokens, head size]`."""
    queries, query_heads, head_size = query.shape
    kv_heads = key.shape[1]
    # [KV heads, query heads of each, tokens, head size]; all query heads of a KV head see the same K and V (stride 0).
    query = query.transpose(0, 1).reshape(kv_heads, query_heads // kv_heads, queries, head_size)
    key, value = (t[0][:, None].expand(-1, query.shape[1], -1, -1) for t in (key, value))
    if visible is None and soft_cap is None:
        result = F.scaled_dot_product_attention(query, key, value, is_causal=True, scale=scale)
    else:
        if visible is None:
            visible = torch.full((queries, queries), -torch.inf, device=query.device).triu(1)
        result = _attend(query, key, value, visible, scale, soft_cap)
    return result.reshape(query_heads, queries, head_size).transpose(0, 1)


def _decode(query, place, layer, scale, soft_cap):
    """Requests with one query each, `[requests, query heads, head size]`, in one call."""
    key, value = place.read(layer)
    # The query heads of one KV head become its "queries": [requests, KV heads, query heads of each, head size].
    grouped = query.reshape(query.shape[0], key.shape[1], -1, query.shape[2])
    return _attend(grouped, key, value, place.visible, scale, soft_cap).reshape(query.shape)


def _attend(query, key, value, visible, scale, soft_cap):
    if soft_cap is None:
        return F.scaled_dot_product_attention(query, key, value, attn_mask=visible, scale=scale)
    score = torch.matmul(query.float() * scale, key.float().transpose(-1, -2))
    score = soft_cap * torch.tanh(score / soft_cap)
    if visible is not None:
        score = score + visible
    return torch.matmul(torch.softmax(score, dim=-1), value.float()).to(query.dtype)


# ------------------------------------------------------------------------------------------------ where K and V lie


@dataclass(frozen=True)
class Neighbours:
    """Tokens of one request whose blocks are neighbours: slots `start` to `end` of the pool, a view."""

    start: int
    end: int
    visible = None

    def read(self, layer):
        """K and V, each `[1, KV heads, tokens, head size]`."""
        return tuple(
            t.flatten(0, 1)[None, self.start : self.end].transpose(1, 2) for t in (layer.key, layer.value)
        )


class Scattered:
    """Tokens that have to be gathered, block by block, because a block is one run of memory.

    blocks    int64 `[requests * blocks of each]`
    skip      tokens to leave out at the start of the first block (only for one request)
    count     tokens of each request, padding included
    visible   `[requests, 1, 1, count]`: 0 or minus infinity, to be added to the scores; None where all are visible
    unwritten int64: rows among those gathered that may hold anything, NaN included, which no mask would stop
    """

    def __init__(self, layer, requests, blocks, skip, count, visible=None, unwritten=None):
        self.requests, self.blocks, self.skip, self.count = requests, blocks, skip, count
        self.visible, self.unwritten = visible, unwritten
        self.buffers = None
        if _has_rows(layer.key) and _has_rows(layer.value):
            self.buffers = self._make_buffer("key", layer.key), self._make_buffer("value", layer.value)

    def read(self, layer):
        """K and V, each `[requests, KV heads, tokens, head size]`, good until the next reading."""
        if self.buffers is None:
            return self._pick(layer.key), self._pick(layer.value)
        (key, key_slots, key_shaped), (value, value_slots, value_shaped) = self.buffers
        torch.index_select(layer.key.flatten(1), 0, self.blocks, out=key)
        torch.index_select(layer.value.flatten(1), 0, self.blocks, out=value)
        if self.unwritten is not None:
            key_slots.index_fill_(0, self.unwritten, 0)
            value_slots.index_fill_(0, self.unwritten, 0)
        return key_shaped, value_shaped

    def _pick(self, pool):
        slots = pool[self.blocks].flatten(0, 1)
        if self.unwritten is not None:
            slots.index_fill_(0, self.unwritten, 0)
        return self._shaped(slots)

    def _make_buffer(self, which, pool):
        """One piece of memory in three views: a row for each block, a row for each slot, and what `read` returns."""
        num_blocks, block_size = self.blocks.shape[0], pool.shape[1]
        slots = _buffer(which, num_blocks * block_size, pool)
        return slots.view(num_blocks, -1), slots, self._shaped(slots)

    def _shaped(self, slots):
        of_each = slots.view(self.requests, -1, *slots.shape[1:])
        return of_each[:, self.skip : self.skip + self.count].transpose(1, 2)


def _place_of_one(layer, table, first, end):
    """Tokens first..end of one request."""
    size = layer.block_size
    blocks = table[first // size : -(-end // size)]
    ids = blocks.tolist()
    skip = first % size
    if ids == list(range(ids[0], ids[0] + len(ids))) and _has_rows(layer.key) and _has_rows(layer.value):
        start = ids[0] * size + skip
        return Neighbours(start, start + end - first)
    return Scattered(layer, 1, blocks.long(), skip, end - first)


def _place_of_group(layer, block_tables, group, firsts, ends):
    """Tokens firsts[i]..ends[i] of each request of a group, padded to whole blocks and to the longest."""
    size, device = layer.block_size, block_tables.device
    starts = [first // size for first in firsts]  # the block in which each one begins
    widest = max(-(-end // size) - start for start, end in zip(starts, ends, strict=True))
    start = torch.tensor(starts, device=device)[:, None]
    first, end = torch.tensor(firsts, device=device)[:, None], torch.tensor(ends, device=device)[:, None]
    logical = start + torch.arange(widest, device=device)
    last = (end - 1) // size
    # Padding reads the request's own last block again: its first token was surely written.
    blocks = block_tables[torch.tensor(group, device=device)].long().gather(1, torch.minimum(logical, last))
    position = (logical * size)[:, :, None] + torch.arange(size, device=device)
    position = position.flatten(1)
    visible = (position >= first) & (position < end)
    unwritten = torch.minimum(position, last * size + position % size) >= end
    return Scattered(
        layer,
        len(group),
        blocks.flatten(),
        0,
        widest * size,
        None if visible.all() else _as_summand(visible[:, None, None], layer),
        unwritten.flatten().nonzero().flatten() if unwritten.any() else None,
    )


def _as_summand(visible, layer):
    """A mask as numbers to be added to the scores: 0 where visible, else minus infinity. torch would make them at every
    call."""
    zero = torch.zeros((), dtype=layer.key.dtype, device=visible.device)
    return torch.where(visible, zero, -torch.inf)


def _has_rows(pool):
    """True when slots are equally spaced rows of memory, each block one run, so that `flatten` is a view (NHD)."""
    return pool.is_contiguous()


def _buffer(which, rows, like):
    """A part of this thread's scratch memory `[rows, KV heads, head size]`, made larger when it is too small."""
    name = (which, like.dtype, like.device, tuple(like.shape[2:]))
    buffers = _scratch.__dict__
    if name not in buffers or buffers[name].shape[0] < rows:
        with torch.inference_mode(False):  # made in inference mode, it could not be written outside of it
            buffers[name] = torch.empty(rows, *like.shape[2:], dtype=like.dtype, device=like.device)
    return buffers[name][:rows]


# ------------------------------------------------------------------------------------------- writing, and moving blocks


def write(layer, slot_mapping, lowest):
    """`put(layer, key, value)` for a step; see `AttentionBackend`. Slots of -1 are skipped."""
    kept = None if lowest >= 0 else slot_mapping >= 0
    slots = slot_mapping if kept is None else slot_mapping[kept]
    places = (slots // layer.block_size, slots % layer.block_size)

    def put(layer, key, value):
        if kept is not None:
            key, value = key[kept], value[kept]
        layer.key.index_put_(places, key)
        layer.value.index_put_(places, value)

    return put


def copy_blocks(data: torch.Tensor, sources: list[int], destinations: list[int]) -> None:
    source, destination = (torch.tensor(ids, device=data.device) for ids in (sources, destinations))
    data.index_copy_(2, destination, data.index_select(2, source))


BACKEND = AttentionBackend(
    name="torch",
    devices=("cpu", "cuda", "mps"),
    attend=attention,
    plan=lambda layer, *places: Plan(layer, *places).run,
    write=write,
    copy_blocks=copy_blocks,
)
