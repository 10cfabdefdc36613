"""Who computes attention on which device? A table: adding a back end is one file, with a record in it, and one line.

triton      the kernels of `kernels/`: the quick one on a GPU (and, under TRITON_INTERPRET=1, on a CPU, slowly)
cpp         the quick one on a CPU, for float32: a decode step in C++, the rest as torch does it
torch       what runs everywhere else
fixed_tiles the one whose results are the same bits in every batch, for `LLM(batch_invariant=True)`
reference   what attention *is*, in float64, one request at a time: slow, and plainly right
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from pagedlab.errors import PagedlabError

if TYPE_CHECKING:
    import torch

# Name -> the module that has its record, as BACKEND. Of several for one device the first that can run is chosen.
BACKENDS = {
    "triton": "pagedlab.attention.triton_backend",
    "cpp": "pagedlab.attention.cpp_backend",
    "torch": "pagedlab.attention.torch_backend",
    "fixed_tiles": "pagedlab.attention.fixed_tiles",
    "reference": "pagedlab.attention.reference",
}


@dataclass(frozen=True)
class AttentionBackend:
    """How one back end does what the pool and the model ask for. Shapes are those of `paged_attention`; everything has
    been checked before, but for what `looks` says.

    devices      kinds of device ("cpu", "cuda", "mps") for which it may be chosen when none is asked for by name
    attend       `attend(query, layer, block_tables, seq_lens, query_start_loc, scale, sliding_window, soft_cap)`
    plan         `plan(layer, block_tables, seq_lens, query_start_loc, sliding_window) -> run(query, layer, scale)`: the
                 same, where tables and lengths are looked at once for all layers of a step
    write        `write(layer, slot_mapping, lowest) -> put(layer, key, value)`: the same for writing; `lowest` is the
                 lowest slot where it is known, else 0
    copy_blocks  `copy_blocks(data, sources, destinations)`: whole blocks of `KVPool.data`, as if all were read first
    looks        does it look at lengths and block ids itself, so that checking them costs nobody a wait?
    why_not      why it cannot run on this machine, or None
    batch_invariant  does a token get the same bits whatever else is in the batch, and however its prompt is cut?
    """

    name: str
    devices: tuple[str, ...]
    attend: Callable[..., torch.Tensor]
    plan: Callable[..., Callable[..., torch.Tensor]]
    write: Callable[..., Callable[..., None]]
    copy_blocks: Callable[[torch.Tensor, list[int], list[int]], None]
    looks: bool = True
    why_not: Callable[[], str | None] = lambda: None
    batch_invariant: bool = False


def choose_backend(backend: str | None, device: torch.device | None, batch_invariant: bool = False) -> str:
    """The back end for this device, of those that are `batch_invariant` where that is wanted; or the one that was asked
    for by name. Raises PagedlabError for an unknown name, for one that cannot run here, and for a device for which
    there is none."""
    if backend is None:
        for name in BACKENDS:
            found = backend_named(name)
            if device.type in found.devices and found.batch_invariant >= batch_invariant and not found.why_not():
                return name
        raise PagedlabError(f"No attention back end is made for {device}; try backend='torch'.")
    if backend not in BACKENDS:
        names = ", ".join(sorted(BACKENDS))
        raise PagedlabError(f"Unknown attention backend {backend!r}; allowed are {names}, or None to choose by device.")
    if reason := backend_named(backend).why_not():
        raise PagedlabError(f"The {backend.capitalize()} back end cannot run: {reason}. Use backend='torch'.")
    return backend


def backend_named(name: str) -> AttentionBackend:
    return import_module(BACKENDS[name]).BACKEND


def backend_for(backend: str | None, device: torch.device) -> AttentionBackend:
    """The record of `choose_backend`."""
    return backend_named(choose_backend(backend, device))


def plan_nothing(attend: Callable[..., torch.Tensor]) -> Callable[..., Callable[..., torch.Tensor]]:
    """A `plan` for a back end that looks at everything anew in each layer."""

    def plan(_layer, block_tables, seq_lens, query_start_loc, sliding_window):
        places = (block_tables, seq_lens, query_start_loc)
        return lambda query, layer, scale: attend(query, layer, *places, scale, sliding_window)

    return plan
