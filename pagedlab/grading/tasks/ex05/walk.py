"""Attention of one query, for part 2: it reads all blocks first, and needs no more than one softmax then."""

from __future__ import annotations

from collections.abc import Callable

import torch

ReadBlock = Callable[[int], tuple[torch.Tensor, torch.Tensor]]


def walk(query: torch.Tensor, read_block: ReadBlock, table: list[int], length: int, scale: float) -> torch.Tensor:
    """Attention of ``query [head size]`` over ``length`` tokens in the blocks of ``table``.

    ``read_block(physical block)``: its K and V, each `[block size, head size]`.
    """
    keys, values, seen = [], [], 0
    for block in table:
        if seen >= length:
            break
        key, value = read_block(block)
        here = min(len(key), length - seen)
        keys.append(key[:here])
        values.append(value[:here])
        seen += here
    return torch.softmax(torch.cat(keys) @ query * scale, 0) @ torch.cat(values)
