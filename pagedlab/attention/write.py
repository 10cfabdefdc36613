"""How do a new token's K and V get into the pool?  By `slot_mapping`, one number for each token."""

from __future__ import annotations

from collections.abc import Callable

import torch

from pagedlab.attention.backends import AttentionBackend, backend_for
from pagedlab.attention.checks import can_look, check_layer, check_tensors
from pagedlab.errors import PagedlabError


def write_kv(layer, key: torch.Tensor, value: torch.Tensor, slot_mapping: torch.Tensor, *, backend=None) -> None:
    """Write K and V `[tokens, KV heads, head size]` of new tokens into their slots (see `LayerKV.write`)."""
    check_write(layer, key, value, slot_mapping)
    _putting(layer, slot_mapping, backend_for(backend, key.device))(layer, key, value)


def for_all_layers(layer, slot_mapping: torch.Tensor) -> Callable[..., None]:
    """`write(layer, key, value)` for one step of a model, where slots and shapes are the same in every layer.

    They are looked at once, slots here and shapes at the first layer. Errors as of `write_kv`.
    """
    check_slot_mapping(slot_mapping)
    put = _putting(layer, slot_mapping, backend_for(None, slot_mapping.device))
    checked = False

    def write(layer, key, value):
        nonlocal checked
        if not checked:
            check_write(layer, key, value, slot_mapping)
            checked = True
        put(layer, key, value)

    return write


def _putting(layer, slot_mapping, chosen: AttentionBackend) -> Callable[..., None]:
    """`put(layer, key, value)`, which looks at nothing. Slots are looked at here, where they can be."""
    if slot_mapping.numel() == 0:
        return lambda layer, key, value: None
    lowest = 0
    if can_look(slot_mapping.device, chosen):
        lowest, highest = (int(slot) for slot in slot_mapping.aminmax())  # makes a GPU wait: there for debugging only
        check_slots(lowest, highest, layer)
    return chosen.write(layer, slot_mapping, lowest)


def check_write(layer, key, value, slot_mapping) -> None:
    """Refuse shapes, types and devices that cannot be meant."""
    check_layer(layer)
    check_tensors(key=key, value=value)
    expected = (layer.num_kv_heads, layer.head_size)
    for name, tensor in (("key", key), ("value", value)):
        if tensor.dim() != 3 or tuple(tensor.shape[1:]) != expected:
            raise PagedlabError(
                f"write: {name} has shape {list(tensor.shape)}; allowed is [tokens, KV heads, head size] = "
                f"[tokens, {expected[0]}, {expected[1]}]."
            )
        if tensor.dtype != layer.key.dtype:
            raise PagedlabError(f"write: {name} is {tensor.dtype} but the pool is {layer.key.dtype}; convert it first.")
    check_slot_mapping(slot_mapping)
    if not len(slot_mapping) == len(key) == len(value):
        raise PagedlabError(
            f"write: slot_mapping must be int64 with one slot a token; there are {len(slot_mapping)} slots for "
            f"{len(key)} keys and {len(value)} values."
        )
    if len({t.device for t in (layer.key, key, value, slot_mapping)}) > 1:
        raise PagedlabError("write: key, value, slot_mapping and the pool must all be on one device.")


def check_slot_mapping(slot_mapping) -> None:
    check_tensors(slot_mapping=slot_mapping)
    if slot_mapping.dtype != torch.int64 or slot_mapping.dim() != 1:
        raise PagedlabError(
            f"write: slot_mapping must be int64 with one slot a token; it is {slot_mapping.dtype} with "
            f"{slot_mapping.dim()} dimensions."
        )
    if not slot_mapping.is_contiguous():
        raise PagedlabError("write: slot_mapping is not contiguous; call .contiguous() first.")


def check_slots(lowest: int, highest: int, layer) -> None:
    num_slots = layer.num_blocks * layer.block_size
    if lowest < -1 or highest >= num_slots:
        wrong = highest if highest >= num_slots else lowest
        raise PagedlabError(
            f"write: slot {wrong} is outside the pool; slots go from 0 to {num_slots - 1}, -1 is skipped."
        )
