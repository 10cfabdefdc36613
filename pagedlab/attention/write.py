"""How do a new token's K and V get into the pool?  By `slot_mapping`, one number for each token."""

from __future__ import annotations

import torch

from pagedlab.attention.checks import debug
from pagedlab.errors import PagedlabError


def write_kv(layer, key: torch.Tensor, value: torch.Tensor, slot_mapping: torch.Tensor, *, backend=None) -> None:
    """Write K and V `[tokens, KV heads, head size]` of new tokens into their slots (see `LayerKV.write`)."""
    from pagedlab.attention import choose_backend

    check_write(layer, key, value, slot_mapping)
    if slot_mapping.numel() == 0:
        return
    chosen = choose_backend(backend, key.device)
    lowest = 0
    if chosen != "triton" or slot_mapping.device.type == "cpu" or debug():
        lowest, highest = (int(slot) for slot in slot_mapping.aminmax())  # makes a GPU wait: there for debugging only
        check_slots(lowest, highest, layer)
    if chosen == "triton":
        from pagedlab.kernels.write_kv import write_kv as write_with_triton

        write_with_triton(layer, key, value, slot_mapping)
        return
    if lowest < 0:
        kept = slot_mapping >= 0
        key, value, slot_mapping = key[kept], value[kept], slot_mapping[kept]
    block = slot_mapping // layer.block_size
    offset = slot_mapping % layer.block_size
    layer.key.index_put_((block, offset), key)
    layer.value.index_put_((block, offset), value)


def check_write(layer, key, value, slot_mapping) -> None:
    expected = (layer.num_kv_heads, layer.head_size)
    for name, tensor in (("key", key), ("value", value)):
        if tensor.dim() != 3 or tuple(tensor.shape[1:]) != expected:
            raise PagedlabError(
                f"write: {name} has shape {list(tensor.shape)}; allowed is [tokens, KV heads, head size] = "
                f"[tokens, {expected[0]}, {expected[1]}]."
            )
        if tensor.dtype != layer.key.dtype:
            raise PagedlabError(f"write: {name} is {tensor.dtype} but the pool is {layer.key.dtype}; convert it first.")
    if not slot_mapping.is_contiguous():
        raise PagedlabError("write: slot_mapping is not contiguous; call .contiguous() first.")
    if slot_mapping.dtype != torch.int64 or tuple(slot_mapping.shape) != (key.shape[0],) or len(value) != len(key):
        raise PagedlabError(
            f"write: slot_mapping must be int64 with one slot a token; it is {slot_mapping.dtype} "
            f"{list(slot_mapping.shape)} for "
            f"{len(key)} keys and {len(value)} values."
        )


def check_slots(lowest: int, highest: int, layer) -> None:
    num_slots = layer.num_blocks * layer.block_size
    if lowest < -1 or highest >= num_slots:
        wrong = highest if highest >= num_slots else lowest
        raise PagedlabError(
            f"write: slot {wrong} is outside the pool; slots go from 0 to {num_slots - 1}, -1 is skipped."
        )
