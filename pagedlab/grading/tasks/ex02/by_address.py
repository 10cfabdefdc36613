"""Attention that reads every key and value from the byte of the pool that somebody else names."""

from __future__ import annotations

from typing import Any

import torch

from pagedlab.attention import KVPool, LayerKV


def attention_by_address(
    pool: KVPool,
    find: Any,
    query: torch.Tensor,
    kv: LayerKV,
    block_tables: torch.Tensor,
    seq_lens: torch.Tensor,
    query_start_loc: torch.Tensor,
) -> torch.Tensor:
    """Arguments and result as of ``pagedlab.attention.paged_attention``, with the whole pool and ``find`` before them.

    ``find(pool, table, position, layer, k_or_v, head)`` names the byte. Raises IndexError for one outside the pool.
    """
    layer = next(i for i in range(pool.num_layers) if pool.layer(i) is kv)
    memory = pool.data.reshape(-1).view(torch.uint8)
    width = torch.arange(pool.head_size * pool.data.element_size())
    out = torch.empty_like(query)
    starts = query_start_loc.tolist()
    for row, length in enumerate(seq_lens.tolist()):
        table = block_tables[row, : -(-length // pool.block_size)].tolist()

        def read(k_or_v: int, table: list[int] = table, length: int = length) -> torch.Tensor:
            places = [(p, h) for h in range(pool.num_kv_heads) for p in range(length)]
            begins = torch.tensor([find(pool, table, p, layer, k_or_v, h) for p, h in places])
            numbers = memory[begins[:, None] + width].view(pool.dtype)
            return numbers.view(pool.num_kv_heads, length, pool.head_size)

        new = query[starts[row] : starts[row + 1]].transpose(0, 1)  # [heads, new tokens, head size]
        seen = torch.ones(new.shape[1], length, dtype=torch.bool).tril(length - new.shape[1])
        found = torch.nn.functional.scaled_dot_product_attention(new, read(0), read(1), attn_mask=seen, enable_gqa=True)
        out[starts[row] : starts[row + 1]] = found.transpose(0, 1)
    return out
