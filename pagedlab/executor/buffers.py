"""A step's numbers on their way to the device: arrays that the host fills, in memory that stays where it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch


class Copies:
    """Copies from the host's memory to a device that has its own, each over when its call returns.

    What they read is written under ``with copies:``, so that a device that copies later can be waited for.
    """

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass

    def host(self, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        """Zeros in memory from which can be copied."""
        return torch.zeros(shape, dtype=dtype)

    def copy(self, target: torch.Tensor, source: torch.Tensor) -> None:
        target.copy_(source)


class GPUCopies(Copies):
    """Copies from pinned memory of the host to a GPU, which makes them by itself and later.

    What they read may be written again when they are over; so ``with copies:`` waits for those that were started
    before. (Steps that sample wait for the GPU anyway, but the chunks of a prompt do not.)

    Source: vLLM ``v1/worker/gpu_model_runner.py``, ``synchronize_input_prep``.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._over = torch.cuda.Event()

    def __enter__(self) -> None:
        self._over.synchronize()  # at once where nothing was recorded yet

    def __exit__(self, *_: object) -> None:
        self._over.record(torch.cuda.current_stream(self._device))

    def host(self, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        """Zeros in memory from which a GPU can copy by itself."""
        return torch.zeros(shape, dtype=dtype, pin_memory=True)

    def copy(self, target: torch.Tensor, source: torch.Tensor) -> None:
        """Start a copy: it reads ``source`` when the GPU comes to it."""
        target.copy_(source, non_blocking=True)


def copies_to(device: torch.device) -> Copies | None:
    """How numbers get to ``device``; None where it works in the host's own memory."""
    if device.type == "cpu":
        return None
    return GPUCopies(device) if device.type == "cuda" else Copies()


class Buffer:
    """A fixed tensor on the device and the numpy array on the host that fills it. Without ``copies``, on a CPU, they
    are the same memory."""

    def __init__(
        self, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device, copies: Copies | None
    ) -> None:
        self._copies = copies
        self.staging = copies.host(shape, dtype) if copies else torch.zeros(shape, dtype=dtype)
        self._device = torch.zeros(shape, dtype=dtype, device=device) if copies else self.staging
        self.host = self.staging.numpy()

    def fill(self, rows: Sequence[Any]) -> None:
        """Write the first rows, all in one go: a step has a few numbers of each request, and each write costs."""
        self.host[: len(rows)] = rows

    def send(self, count: int) -> torch.Tensor:
        """The first ``count`` rows, up to date on the device for whatever it does next."""
        if self._copies:
            self._copies.copy(self._device[:count], self.staging[:count])
        return self._device[:count]


class Tables(Buffer):
    """Block tables, a row for each request of the batch. Most are what they were a step ago, or longer at their end:
    only what is new is written."""

    def __init__(self, shape: tuple[int, int], *where: Any) -> None:
        super().__init__(shape, *where)
        self._rows: list[list[int]] = [[] for _ in range(shape[0])]

    def fill_row(self, row: int, block_ids: list[int]) -> None:
        before = self._rows[row]
        if block_ids == before:
            return
        same = len(before) if block_ids[: len(before)] == before else 0
        self.host[row, same : len(block_ids)] = block_ids[same:]
        self._rows[row] = list(block_ids)
