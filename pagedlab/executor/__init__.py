"""Devices that can run the model and keep its K and V, behind one protocol: :class:`Executor`.

The engine chooses one by the name of its device. Adding one is a file here and a line in ``EXECUTORS``.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

from pagedlab.errors import PagedlabError
from pagedlab.executor.abstract import Draw, Executor, SamplerOutput, SamplingMetadata, ScheduledRequest
from pagedlab.executor.pool_size import PoolBudget

if TYPE_CHECKING:
    from pagedlab.engine.config import EngineConfig

__all__ = [
    "EXECUTORS",
    "Draw",
    "Executor",
    "PoolBudget",
    "SamplerOutput",
    "SamplingMetadata",
    "ScheduledRequest",
    "find_executor",
    "make_executor",
]

TORCH = "pagedlab.executor.torch_executor:TorchExecutor"
DEVICE_VARIABLE, AUTO = "PAGEDLAB_DEVICE", "auto"
# Kind of device -> class, called with (model, device=, dtype=, seed=). Loaded when it is asked for.
EXECUTORS = {
    "cpu": TORCH,
    "cuda": TORCH,
    "mps": TORCH,
    "webgpu": "pagedlab.executor.webgpu_executor:WebGPUExecutor",
    "counting": "pagedlab.executor.counting:CountingExecutor",
}
RANKED = "pagedlab.executor.ranked_executor:RankedExecutor"  # over several processes, each with a device


def find_executor(given: Any, model: Any, *, device: Any, dtype: Any, config: EngineConfig) -> Executor:
    """For an engine: the executor that was ``given`` to it, one that shares the weights of the engine ``model``, or a
    new one; ``config`` then names its ranks. Raises PagedlabError for what is no executor, for one that comes with a
    model, device or dtype, for another number of ranks than it has, and as :func:`make_executor` does."""
    wanted = config.tensor_parallel_size
    if given is None and not hasattr(model, "executor"):
        config.tensor_parallel_size = wanted or 1
        return make_executor(
            model, device=device, dtype=dtype, seed=config.seed, tensor_parallel_size=config.tensor_parallel_size
        )
    there = getattr(given or model.executor, "tensor_parallel_size", 1)
    if wanted not in (None, there):
        raise PagedlabError(
            f"tensor_parallel_size is {wanted}, and these weights lie in {there} "
            f"{'process' if there == 1 else 'processes'}: leave it out, or load the model anew."
        )
    config.tensor_parallel_size = there
    if given is None:
        return model.executor.share()
    if not (model is device is dtype is None):
        raise PagedlabError("An executor has its model, device and dtype; give it alone.")
    lacking = [name for name in ("tokenizer", "plan", "submit", "collect") if not hasattr(given, name)]
    if lacking or isinstance(given, type):
        what = f"{given!r} has no {lacking[0]}" if lacking else f"{given!r} is a class"
        raise PagedlabError(f"{what}; give an object that does what pagedlab.executor.Executor says.")
    return given


def make_executor(
    model: str | None = None, *, device: Any = None, dtype: Any = None, seed: int = 0, tensor_parallel_size: int = 1
) -> Executor:
    """The executor for ``device``, with ``model`` on it (None: what it takes by default). ``device`` None is what the
    environment variable PAGEDLAB_DEVICE says; where that is not set, or "auto", it is CUDA where there is one, else the
    CPU. With ``tensor_parallel_size`` above 1 it is one over so many processes. Raises PagedlabError for a device, a
    dtype or a model that is not to be had here."""
    named_in = "" if device is not None else f" in {DEVICE_VARIABLE}"
    device = device if device is not None else os.environ.get(DEVICE_VARIABLE) or AUTO
    device = None if device == AUTO else device
    kind = "cpu" if device is None else str(device).partition(":")[0]
    if kind not in EXECUTORS:
        allowed = ", ".join((AUTO, *EXECUTORS))
        raise PagedlabError(f"Unknown device {device!r}{named_in}; allowed are {allowed}, and cuda:0 and the like.")
    named: dict[str, Any] = {} if model is None else {"model": model}
    if tensor_parallel_size > 1:
        named["tensor_parallel_size"] = tensor_parallel_size
    module, _, name = (RANKED if tensor_parallel_size > 1 else EXECUTORS[kind]).partition(":")
    return getattr(import_module(module), name)(**named, device=device, dtype=dtype, seed=seed)
