"""Requests, scheduler, sampling, and the engine that ties them to the model.

Requests and scheduler are pure Python; what needs torch is loaded when it is first used, so that the manager's tests,
its benchmark and the comparison with vLLM start at once.
"""

from importlib import import_module

from pagedlab.engine.beam import BeamSearchOutput, BeamSearchParams, BeamSearchSequence
from pagedlab.engine.config import EngineConfig
from pagedlab.engine.request import CompletionOutput, Request, RequestOutput, SamplingParams
from pagedlab.engine.scheduler import Scheduler, SchedulerOutput

_HOME = {"CopyOnWrite": "driver", "EngineDriver": "driver", "LLM": "llm", "Remap": "driver"}

__all__ = [
    "LLM",
    "BeamSearchOutput",
    "BeamSearchParams",
    "BeamSearchSequence",
    "CompletionOutput",
    "CopyOnWrite",
    "EngineConfig",
    "EngineDriver",
    "Remap",
    "Request",
    "RequestOutput",
    "SamplingParams",
    "Scheduler",
    "SchedulerOutput",
]


def __getattr__(name: str):
    if name not in _HOME:
        raise AttributeError(f"module 'pagedlab.engine' has no attribute {name!r}; it has {', '.join(__all__)}")
    return getattr(import_module(f"pagedlab.engine.{_HOME[name]}"), name)
