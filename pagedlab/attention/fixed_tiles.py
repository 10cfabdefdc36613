"""How does attention give a token the same bits in every batch?

The sum over the past is cut by *position*, and by nothing else: keys in splits of 128 positions, counted from the start
of the request; queries in tiles of 4 positions. One tile against one split is always the same small sum of the same
sizes, and the splits are added up from left to right (online softmax). So it does not matter how many requests are in
the batch, how long the others are, in what chunks a prompt comes, which blocks hold it, or how much of it was cached:
a query at position p lies in row p % 4 of its tile, and meets the same splits in the same order.

What is not there is filled up: positions that no query was asked for, and keys that a query may not see. Their weight
is 0, and adding 0 moves nothing. This costs time, and gains nothing but equal bits; `torch_backend` is the quick one.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from pagedlab.attention.backends import AttentionBackend
from pagedlab.attention.torch_backend import copy_blocks, write

QUERIES = 4  # positions of a tile; it divides SPLIT, so that a tile never reaches into two splits
SPLIT = 128  # positions of a split
LOWEST = torch.finfo(torch.float32).min  # below any score, and finite: LOWEST - LOWEST is 0


def attention(query, layer, block_tables, seq_lens, query_start_loc, scale, sliding_window=None, soft_cap=None):
    """See `pagedlab.attention.paged_attention`; here with `scale` given. Computes in float32, returns query's dtype."""
    return Plan(layer, block_tables, seq_lens, query_start_loc, sliding_window).run(query, layer, scale, soft_cap)


@dataclass(frozen=True)
class Tile:
    """rows: of the step's query, as many as were asked for; places: where they lie in the tile; splits: (split, hidden
    [QUERIES, SPLIT] where something is not to be seen, or None), from left to right."""

    rows: slice
    places: slice
    splits: list[tuple[int, torch.Tensor | None]]


class Plan:
    """What is the same in every layer of a step: each request's slots, and its tiles."""

    def __init__(self, layer, block_tables, seq_lens, query_start_loc, sliding_window=None):
        starts = query_start_loc.tolist()
        self.requests = []
        for r, context in enumerate(seq_lens.tolist()):
            if count := starts[r + 1] - starts[r]:
                slots = _slots(layer.block_size, block_tables[r], context)
                tiles = _tiles(starts[r], context - count, context, sliding_window, block_tables.device)
                self.requests.append((slots, tiles))

    def run(self, query, layer, scale, soft_cap=None):
        """Attention of `query [tokens, query heads, head size]` over one layer."""
        output = torch.empty_like(query)
        for slots, tiles in self.requests:
            key, value = _splits(layer.key, slots), _splits(layer.value, slots)
            for tile in tiles:
                part = query.new_zeros(QUERIES, *query.shape[1:], dtype=torch.float32)
                part[tile.places] = query[tile.rows]
                output[tile.rows] = _attend(part * scale, key, value, tile.splits, soft_cap)[tile.places]
        return output


def _attend(query, key, value, splits, soft_cap):
    """query [QUERIES, query heads, head size], key and value [splits, KV heads, SPLIT, head size] -> as query."""
    kv_heads = key.shape[1]
    # The query heads of one KV head, and the tile's positions for each, are the rows of one product.
    rows = query.transpose(0, 1).reshape(kv_heads, -1, query.shape[2])
    most = torch.full_like(rows[..., :1], LOWEST)
    total, result = torch.zeros_like(most), torch.zeros_like(rows)
    for split, hidden in splits:
        score = torch.bmm(rows, key[split].transpose(1, 2))
        if soft_cap is not None:
            score = soft_cap * torch.tanh(score / soft_cap)
        if hidden is not None:
            score = score.view(kv_heads, -1, QUERIES, SPLIT).masked_fill_(hidden, -torch.inf).view_as(score)
        before, most = most, torch.maximum(most, score.amax(-1, keepdim=True))
        weight, kept = (score - most).exp_(), (before - most).exp_()
        total = total * kept + weight.sum(-1, keepdim=True)
        result = result * kept + torch.bmm(weight, value[split])
    return (result / total).view(-1, QUERIES, query.shape[2]).transpose(0, 1)


def _slots(size, table, context):
    """int64 [positions, filled up to whole splits]: where each lies; those behind the end read the last one again."""
    position = torch.arange(-(-context // SPLIT) * SPLIT, device=table.device).clamp_(max=context - 1)
    return table[position // size].long() * size + position % size


def _splits(pool, slots):
    """float32 [splits, KV heads, SPLIT, head size] of one request, in memory of their own."""
    rows = pool.flatten(0, 1)[slots] if pool.is_contiguous() else pool[slots // pool.shape[1], slots % pool.shape[1]]
    return rows.float().view(-1, SPLIT, *rows.shape[1:]).transpose(1, 2).contiguous()


def _tiles(row, start, end, window, device):
    """The tiles of queries at positions `start` to `end`, the first of which is `row` of the step's query."""
    tiles = []
    for first in range(start // QUERIES * QUERIES, end, QUERIES):
        here = slice(max(first, start), min(first + QUERIES, end))
        position = torch.arange(first, first + QUERIES, device=device)[:, None]
        nearest = 0 if window is None else max(0, first - window + 1)  # the leftmost position that any of them sees
        splits = []
        for split in range(nearest // SPLIT, first // SPLIT + 1):
            key_position = torch.arange(split * SPLIT, (split + 1) * SPLIT, device=device)
            hidden = key_position > position
            if window is not None:
                hidden |= key_position <= position - window
            whole = (split + 1) * SPLIT <= first and (window is None or split * SPLIT > first + QUERIES - 1 - window)
            splits.append((split, None if whole else hidden))
        rows = slice(row + here.start - start, row + here.stop - start)
        tiles.append(Tile(rows, slice(here.start - first, here.stop - first), splits))
    return tiles


BACKEND = AttentionBackend(
    name="fixed_tiles",
    devices=("cpu", "cuda", "mps"),
    attend=attention,
    plan=lambda layer, *places: Plan(layer, *places).run,
    write=write,
    copy_blocks=copy_blocks,
    batch_invariant=True,
)
