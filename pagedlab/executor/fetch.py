"""Between a device and the host, and nobody waits who need not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch


def rows_of(numbers: torch.Tensor, rows: list[int]) -> torch.Tensor:
    """``numbers`` [any, …] -> [rows, …]."""
    return numbers if rows == [*range(len(numbers))] else numbers[index_of(rows, numbers)]


def index_of(rows: list[int], numbers: torch.Tensor) -> torch.Tensor:
    """For ``numbers``, on their device. A list as an index would be copied to a GPU at once, and waited for."""
    return to_device_of(numbers, torch.tensor(rows, dtype=torch.int64))


def to_device_of(like: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
    """The host's ``numbers`` on the device of ``like``: there when the device comes to them, and nobody waits."""
    return (numbers.pin_memory() if like.is_cuda else numbers).to(like.device, non_blocking=True)


def fetch(numbers: torch.Tensor) -> Callable[[], np.ndarray]:
    """Start to bring ``numbers`` to the host. The function that is returned waits until they are there, and not for
    whatever a CUDA GPU was told to do since. Elsewhere they are there, or copied when they are asked for.

    Source: vLLM ``v1/worker/gpu_model_runner.py``, ``AsyncGPUModelRunnerOutput``.
    """
    if numbers.device.type != "cuda":
        return lambda: numbers.cpu().numpy()
    target = torch.empty(numbers.shape, dtype=numbers.dtype, pin_memory=True)
    target.copy_(numbers, non_blocking=True)
    over = torch.cuda.Event()
    over.record(torch.cuda.current_stream(numbers.device))

    def wait() -> np.ndarray:
        over.synchronize()
        return target.numpy()

    return wait
