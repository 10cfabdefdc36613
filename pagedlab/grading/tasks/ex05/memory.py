"""Small memories to read from, made from a case's seed: the same in the learner's process and in the judge's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class Memory:
    """``key``, ``value`` `[blocks, block size, KV heads, head size]`, NaN where nothing was written. ``tables[r]``:
    request r's blocks. ``query`` `[tokens, query heads, head size]`."""

    key: torch.Tensor
    value: torch.Tensor
    tables: list[list[int]]
    query: torch.Tensor


def build(case: dict) -> Memory:
    """``lengths`` and ``queries`` of the requests, ``block_size``, ``kv_heads``, ``group``, ``head_size``; ``loud``
    multiplies the scores; ``trend``: 1 where each block of keys is more like the query than the one before, -1 where it
    is less, 0 for neither; ``layout``: "NHD", "HND", or "gaps" (more room than the numbers need)."""
    random = torch.Generator().manual_seed(case["seed"])
    size, heads, width = case["block_size"], case["kv_heads"], case["head_size"]
    counts = [-(-length // size) for length in case["lengths"]]
    blocks = 1 + sum(counts) + 3
    order = (1 + torch.randperm(blocks - 1, generator=random)).tolist()
    tables = [[order.pop() for _ in range(count)] for count in counts]
    query = torch.randn(sum(case["queries"]), heads * case["group"], width, generator=random)
    key, value = (_memory(case["layout"], blocks, size, heads, width) for _ in range(2))
    for table, length in zip(tables, case["lengths"], strict=True):
        for position in range(length):
            place = table[position // size], position % size
            key[place] = torch.randn(heads, width, generator=random)
            value[place] = torch.randn(heads, width, generator=random)
            if case["trend"]:
                steps = position // size if case["trend"] > 0 else len(table) - 1 - position // size
                key[place] = query[-1, :: case["group"]] * (0.2 + 0.3 * steps) + 0.1 * key[place]
    return Memory(key, value, tables, query * case["loud"])


def _memory(layout: str, blocks: int, size: int, heads: int, width: int) -> torch.Tensor:
    if layout == "HND":
        return torch.full((blocks, heads, size, width), torch.nan).transpose(1, 2)
    if layout == "gaps":
        return torch.full((blocks, size + 1, heads + 1, width), torch.nan)[:, :size, :heads]
    return torch.full((blocks, size, heads, width), torch.nan)


def numbers(result: Any) -> list:
    """A tensor as plain numbers, in one row; a shape in front."""
    if not isinstance(result, torch.Tensor):
        raise TypeError(f"a tensor was asked for; this is a {type(result).__name__}")
    return [list(result.shape), [float(x) for x in result.detach().flatten().tolist()]]
