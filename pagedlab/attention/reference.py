"""What is attention, written so plainly that it must be right?

One request at a time, one query head at a time, in float64. Slow on purpose: everything else is compared with this.
"""

from __future__ import annotations

import torch

from pagedlab.attention.backends import AttentionBackend, plan_nothing
from pagedlab.attention.torch_backend import copy_blocks, write


def attention(query, layer, block_tables, seq_lens, query_start_loc, scale, sliding_window=None, soft_cap=None):
    """See `pagedlab.attention.paged_attention`; here with `scale` given. Computes in float64, returns query's dtype."""
    output = torch.empty_like(query)
    queries_per_kv_head = query.shape[1] // layer.num_kv_heads
    starts = query_start_loc.tolist()
    for r, context in enumerate(seq_lens.tolist()):
        start, end = starts[r], starts[r + 1]
        # Where is position p?  In logical block p // block_size, which the table translates, at offset p % block_size.
        position = torch.arange(context, device=query.device)
        physical_block = block_tables[r].long()[position // layer.block_size]
        block_offset = position % layer.block_size
        key = layer.key[physical_block, block_offset].double()  # [context, KV heads, head size]
        value = layer.value[physical_block, block_offset].double()

        # The queries are the last tokens of the context: query i stands at position context - queries + i.
        query_position = torch.arange(context - (end - start), context, device=query.device)[:, None]
        visible = position <= query_position
        if sliding_window is not None:
            visible = visible & (position > query_position - sliding_window)
        for head in range(query.shape[1]):
            kv_head = head // queries_per_kv_head
            score = query[start:end, head].double() @ key[:, kv_head].T * scale  # [queries, context]
            if soft_cap is not None:
                score = soft_cap * torch.tanh(score / soft_cap)
            weight = torch.softmax(score.masked_fill(~visible, float("-inf")), dim=-1)
            output[start:end, head] = (weight @ value[:, kv_head]).to(query.dtype)
    return output


BACKEND = AttentionBackend("reference", (), attention, plan_nothing(attention), write, copy_blocks)
