"""The ranks of a split model, joined by torch: sums and gathers, counted."""

from __future__ import annotations

import ctypes
import datetime
import os
import socket
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
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
    """Of one kind of collective: how often; ``bytes`` that this rank sent to the others; ``seconds`` until it had the
    outcome, waiting for the slowest rank included (on a GPU only until it was started)."""

    calls: int = 0
    bytes: int = 0
    seconds: float = 0.0


class Group:
    """See :class:`pagedlab.model.split.Group`: this is the one over processes. Gloo on CPUs, NCCL on CUDA GPUs.

    On CPUs each rank sends its part to every other one, and each adds by itself: for the few kilobytes of a decode step
    that is three times as quick as Gloo's ring, which is made for many bytes. (vLLM's own all-reduce between GPUs does
    the same where the tensor is small.) NCCL chooses for itself. ``in_order``: add in the order of the ranks there too,
    for ``batch_invariant=True``; a ring begins each piece of a tensor with another rank, so that equal tokens would get
    other bits by their places.
    """

    def __init__(self, store: dist.Store, split: Split, device: torch.device, address: str) -> None:
        self.split, self.in_order = split, False
        self.traffic: dict[str, Traffic] = {}
        self._is_nccl = device.type == "cuda"
        self._others = [rank for rank in range(split.size) if rank != split.rank]
        self._ranks = _joined_ranks(store, split, device, address)
        _joined.update((self._ranks, store))

    def all_reduce(self, part: torch.Tensor) -> torch.Tensor:
        part, n = part.contiguous(), self.split.size
        if self._is_nccl and not self.in_order:
            with self._counted("all_reduce", 2 * (n - 1) * part.nbytes // n):  # as a ring has it
                self._ranks.allreduce([part]).wait()
            return part
        with self._counted("all_reduce", (n - 1) * part.nbytes):
            first, *others = self.gathered(part)
            total = first + others.pop(0)
            for other in others:
                total.add_(other)
        return total

    def all_gather(self, part: torch.Tensor) -> torch.Tensor:
        part = part.contiguous()
        with self._counted("all_gather", len(self._others) * part.nbytes):
            return torch.cat(self.gathered(part), dim=-1)

    def gathered(self, part: torch.Tensor) -> list[torch.Tensor]:
        """All ranks' parts, which are of one shape, in each of them."""
        parts = [part if rank == self.split.rank else torch.empty_like(part) for rank in range(self.split.size)]
        if self._is_nccl:
            self._ranks.allgather([parts], [part]).wait()
            return parts
        under_way = [self._ranks.send([part], rank, 0) for rank in self._others]
        under_way += [self._ranks.recv([parts[rank]], rank, 0) for rank in self._others]
        for work in under_way:
            work.wait()
        return parts

    @contextmanager
    def _counted(self, kind: str, num_bytes: int) -> Iterator[None]:
        count, started = self.traffic.setdefault(kind, Traffic()), time.perf_counter()
        yield
        count.seconds += time.perf_counter() - started
        count.calls += 1
        count.bytes += num_bytes

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
