"""The kernels of `kernels/`, as a back end. Triton itself is imported when one of them runs."""

from __future__ import annotations

import torch

from pagedlab.attention.backends import AttentionBackend, plan_nothing
from pagedlab.attention.torch_backend import copy_blocks as copy_with_torch
from pagedlab.kernels import WHY_NOT, available


def attention(query, layer, *places):
    """See `pagedlab.attention.paged_attention`."""
    from pagedlab.kernels.run import attention

    return attention(query, layer, *places)


def write(layer, slot_mapping, lowest):
    from pagedlab.kernels.write_kv import write_kv

    return lambda layer, key, value: write_kv(layer, key, value, slot_mapping)


def copy_blocks(data: torch.Tensor, sources: list[int], destinations: list[int]) -> None:
    """The kernel's programs run in any order, so it takes no block in both roles."""
    if set(destinations) & set(sources):
        copy_with_torch(data, sources, destinations)
        return
    from pagedlab.kernels.move_blocks import copy_blocks

    copy_blocks(data, list(zip(sources, destinations, strict=True)))


BACKEND = AttentionBackend(
    name="triton",
    devices=("cuda",),
    attend=attention,
    plan=plan_nothing(attention),
    write=write,
    copy_blocks=copy_blocks,
    looks=False,
    why_not=lambda: None if available() else WHY_NOT,
)
