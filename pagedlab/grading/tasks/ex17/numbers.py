"""Tensors made from a case's seed: the same in the learner's process and in the judge's; and as plain numbers."""

from __future__ import annotations

from typing import Any

import torch


def build(case: dict) -> dict[str, torch.Tensor]:
    """``shapes``: name -> shape. ``loud`` multiplies what is called query."""
    random = torch.Generator().manual_seed(case["seed"])
    made = {name: torch.randn(*shape, generator=random) for name, shape in case["shapes"].items()}
    if "query" in made:
        made["query"] = made["query"] * case["loud"]
    return made


def numbers(result: Any) -> list:
    """A tensor's shape, its type, and its numbers in one row; a bit that differs is another number."""
    if not isinstance(result, torch.Tensor):
        raise TypeError(f"a tensor was asked for; this is a {type(result).__name__}")
    return [list(result.shape), str(result.dtype), [float(x) for x in result.detach().flatten().tolist()]]
