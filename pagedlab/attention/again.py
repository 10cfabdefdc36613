"""What a page needs to run a query once more in its reader's browser (viz/static/again.js): the WGSL kernel, the query,
the blocks that it reads under their own numbers, and what came out here."""

from __future__ import annotations

import base64
from typing import Any

import torch

from pagedlab.attention.diary import NAME, wgsl_text
from pagedlab.attention.kv_pool import LayerKV

MOST_ON_A_PAGE = 4 << 20  # bytes of K and V
MOST_IN_A_BUFFER = 128 << 20  # what a kernel can read of one, in every browser


def again(
    query: torch.Tensor, layer: LayerKV, block_ids: list[int], context: int, scale: float, *, read: list[list[int]],
    output: torch.Tensor, where: str,
) -> dict[str, Any] | None:  # fmt: skip
    """Plain data, numbers as float32 in base64; None where it is too much for a page. ``read``: the blocks that the
    kernel went through here for each KV head; ``output [query heads, head size]`` is what it gave, ``where`` it ran."""
    used = sorted(set(block_ids))
    block_bytes = 4 * layer.key[0].numel()
    if 2 * len(used) * block_bytes > MOST_ON_A_PAGE or (used[-1] + 1) * block_bytes > MOST_IN_A_BUFFER:
        return None
    return {
        "kernel": NAME,
        "wgsl": wgsl_text(query, layer, len(block_ids), scale),
        "heads": len(query),
        "query": _numbers(query),
        "used": used,
        "key": _numbers(layer.key[used]),
        "value": _numbers(layer.value[used]),
        "table": block_ids,
        "context": context,
        "read": read,
        "output": _numbers(output),
        "rounding": 1e-4 if output.dtype == torch.float32 else 2e-2,
        "where": where,
    }


def _numbers(tensor: torch.Tensor) -> str:
    return base64.b64encode(tensor.float().cpu().contiguous().numpy().tobytes()).decode()
