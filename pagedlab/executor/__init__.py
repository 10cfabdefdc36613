"""Devices that can run the model and keep its K and V, behind one protocol: :class:`Executor`.

The engine chooses one by the name of its device. Adding one is a file here and a line in ``EXECUTORS``.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from pagedlab.errors import PagedlabError
from pagedlab.executor.abstract import Draw, Executor, SamplerOutput, SamplingMetadata, ScheduledRequest
from pagedlab.executor.pool_size import PoolBudget

__all__ = [
    "EXECUTORS",
    "Draw",
    "Executor",
    "PoolBudget",
    "SamplerOutput",
    "SamplingMetadata",
    "ScheduledRequest",
    "make_executor",
]

TORCH = "pagedlab.executor.torch_executor:TorchExecutor"
# Kind of device -> class, called with (model, device=, dtype=, seed=). Loaded when it is asked for.
EXECUTORS = {"cpu": TORCH, "cuda": TORCH, "mps": TORCH, "counting": "pagedlab.executor.counting:CountingExecutor"}


def make_executor(model: str | None = None, *, device: Any = None, dtype: Any = None, seed: int = 0) -> Executor:
    """The executor for ``device`` (None: CUDA where there is one, else the CPU), with ``model`` on it (None: what it
    takes by default). Raises PagedlabError for a device, a dtype or a model that is not to be had here."""
    kind = "cpu" if device is None else str(device).partition(":")[0]
    if kind not in EXECUTORS:
        raise PagedlabError(f"Unknown device {device!r}; allowed are {', '.join(EXECUTORS)}, and cuda:0 and the like.")
    module, _, name = EXECUTORS[kind].partition(":")
    named = {} if model is None else {"model": model}
    return getattr(import_module(module), name)(**named, device=device, dtype=dtype, seed=seed)
