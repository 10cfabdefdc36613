"""The ranks of a split model, joined by torch: sums and gathers, counted."""

from __future__ import annotations

import ctypes
import datetime
import os
import socket
import time
import weakref
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from pagedlab.model.split import Split

ADDRESS_VARIABLE = "PAGEDLAB_HOST_IP"
PATIENCE = datetime.timedelta(minutes=30)  # with a rank that lives and does not come; a dead one is noticed at once
_joined: weakref.WeakSet[Any] = weakref.WeakSet()


@dataclass
class Traffic:
    """Of one kind of collective: how often; ``bytes`` that this rank handed in (a ring sends 2 (n - 1) / n times as
    many in an all-reduce of n ranks); ``seconds`` until it had the outcome, waiting for the slowest rank included (on a
    GPU only until it was started)."""

    calls: int = 0
    bytes: int = 0
    seconds: float = 0.0


class Group:
    """See :class:`pagedlab.model.split.Group`: this is the one over processes. Gloo on a CPU, NCCL on CUDA GPUs.

    ``in_order``: add in the order of the ranks. A ring begins each part of a tensor with another rank, so that equal
    tokens get other bits by their places; for ``batch_invariant=True`` each rank sends all to all, and adds by itself.
    """

    def __init__(self, store: dist.Store, split: Split, device: torch.device, address: str) -> None:
        self.split, self.in_order = split, False
        self.traffic: dict[str, Traffic] = {}
        self._ranks = _joined_ranks(store, split, device, address)
        _joined.add(self._ranks)

    def all_reduce(self, part: torch.Tensor) -> torch.Tensor:
        if self.in_order:
            first, *others = self._gathered("all_reduce", part)
            for other in others:
                first = first + other
            return first
        return self._counted("all_reduce", part.contiguous(), self._ranks.allreduce)

    def all_gather(self, part: torch.Tensor) -> torch.Tensor:
        return torch.cat(self._gathered("all_gather", part), dim=-1)

    def gathered(self, part: torch.Tensor) -> list[torch.Tensor]:
        """All ranks' parts, in each of them. Not counted: no step needs it."""
        parts = [torch.empty_like(part) for _ in range(self.split.size)]
        self._ranks.allgather([parts], [part]).wait()
        return parts

    def _gathered(self, kind: str, part: torch.Tensor) -> list[torch.Tensor]:
        part = part.contiguous()
        parts = [torch.empty_like(part) for _ in range(self.split.size)]
        self._counted(kind, part, lambda mine: self._ranks.allgather([parts], mine))
        return parts

    def _counted(self, kind: str, part: torch.Tensor, collective: Any) -> torch.Tensor:
        count, started = self.traffic.setdefault(kind, Traffic()), time.perf_counter()
        collective([part]).wait()
        count.seconds += time.perf_counter() - started
        count.calls += 1
        count.bytes += part.nbytes
        return part

    def take_traffic(self) -> dict[str, Traffic]:
        """Since the last time."""
        taken, self.traffic = self.traffic, {}
        return taken

    def leave(self) -> None:
        """End torch's threads: they must be over before Python is, or the process may abort as it ends."""
        if self._ranks is not None:
            self._ranks.shutdown()
            self._ranks = None


def _joined_ranks(store: dist.Store, split: Split, device: torch.device, address: str) -> Any:
    """A process group of its own, beside whatever groups the program has."""
    if device.type == "cuda":
        options = dist.ProcessGroupNCCL.Options()
        torch.cuda.set_device(device)
        return dist.ProcessGroupNCCL(store, split.rank, split.size, options)
    options = dist.ProcessGroupGloo._Options()
    options._devices = [dist.ProcessGroupGloo.create_device(hostname=address)]
    options._timeout = PATIENCE
    return dist.ProcessGroupGloo(store, split.rank, split.size, options)


def own_address(master: str) -> str:
    """At which other ranks reach this one: what PAGEDLAB_HOST_IP says, else the address from which this host reaches
    ``master``."""
    if given := os.environ.get(ADDRESS_VARIABLE):
        return given
    kind, _, _, _, place = socket.getaddrinfo(master, 1, type=socket.SOCK_DGRAM)[0]
    with socket.socket(kind, socket.SOCK_DGRAM) as unsent:  # connecting sends nothing yet
        unsent.connect(place)
        return unsent.getsockname()[0]


def _keep_in_a_forked_child() -> None:
    """A copy of this process has none of Gloo's threads, and a group that ends would wait for them: so none ends."""
    for ranks in _joined:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(ranks))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_keep_in_a_forked_child)
