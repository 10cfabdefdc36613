"""What attention gives, and what is close enough to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from pagedlab.grading.plain import raised, same, show
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


def own_result(words: Callable[[dict], str]) -> Callable[[dict, Any], str | None]:
    """A property: what a call gave is as it was after the next call. ``words``: what a case is, in a sentence."""

    def broken(case: dict, answer: Any) -> str | None:
        if same(answer["later"], answer["result"]):
            return None
        if raised(answer["later"]):
            return f"for {words(case)}, asked a second time with -query, it gave {show(answer['later'])}"
        first, later = (some(numbers[1]) for numbers in (answer["result"], answer["later"]))
        return (
            f"for {words(case)} the result began with {first}; after a second call, with -query, it begins with {later}"
        )

    return broken
