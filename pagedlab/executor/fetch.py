"""Numbers that a device has computed, on their way to the host."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch


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
