"""Small memories to read from, made from a case's seed: the same in the learner's process and in the judge's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

TOLERANCE = 1e-3  # of float32 sums of a few dozen terms, written in any order


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
    multiplies the scores; ``rising``: each block of keys is more like the query than the one before; ``layout``: "NHD",
    "HND", or "gaps" (more room than the numbers need)."""
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
            if case["rising"]:
                key[place] = query[-1, :: case["group"]] * (0.2 + 0.3 * (position // size)) + 0.1 * key[place]
    return Memory(key, value, tables, query * case["loud"])


def _memory(layout: str, blocks: int, size: int, heads: int, width: int) -> torch.Tensor:
    if layout == "HND":
        return torch.full((blocks, heads, size, width), torch.nan).transpose(1, 2)
    if layout == "gaps":
        return torch.full((blocks, size + 1, heads + 1, width), torch.nan)[:, :size, :heads]
    return torch.full((blocks, size, heads, width), torch.nan)


def expected(case: dict, memory: Memory, scale: float) -> torch.Tensor:
    """What attention gives, in float64 with all scores at hand: `[tokens, query heads, head size]`."""
    result, row = torch.empty_like(memory.query, dtype=torch.float64), 0
    for table, length, queries in zip(memory.tables, case["lengths"], case["queries"], strict=True):
        position = torch.arange(length)
        blocks, offset = torch.tensor(table)[position // case["block_size"]], position % case["block_size"]
        for seen in range(length - queries + 1, length + 1):
            for head in range(memory.query.shape[1]):
                place = blocks[:seen], offset[:seen], head // case["group"]
                scores = memory.key[place].double() @ memory.query[row, head].double() * scale
                result[row, head] = torch.softmax(scores, 0) @ memory.value[place].double()
            row += 1
    return result


def numbers(result: Any) -> list[float]:
    """A tensor as plain numbers, in one row; a shape in front."""
    if not isinstance(result, torch.Tensor):
        raise TypeError(f"a tensor was asked for; this is a {type(result).__name__}")
    return [list(result.shape), [float(x) for x in result.detach().flatten().tolist()]]


def close(found: list[float], right: torch.Tensor) -> bool:
    """NaN is close to nothing."""
    found = torch.tensor(found, dtype=torch.float64)
    return bool(torch.allclose(found, right.flatten(), atol=TOLERANCE, rtol=TOLERANCE))


def some(found: list[float]) -> str:
    return ", ".join(f"{x:.3f}" for x in found[:3]) + (", …" if len(found) > 3 else "")
