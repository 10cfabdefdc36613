"""What attention gives, and what is close enough to it."""

from __future__ import annotations

import torch

from pagedlab.grading.tasks.ex05.memory import Memory

TOLERANCE = 1e-3  # of float32 sums of a few dozen terms, written in any order


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


def close(found: list[float], right: torch.Tensor) -> bool:
    """NaN is close to nothing."""
    found = torch.tensor(found, dtype=torch.float64)
    return bool(torch.allclose(found, right.flatten(), atol=TOLERANCE, rtol=TOLERANCE))


def some(found: list[float]) -> str:
    return ", ".join(f"{x:.3f}" for x in found[:3]) + (", …" if len(found) > 3 else "")
