"""vLLM itself, watched from inside: what its scheduler, its manager and its block pool do becomes a trace.

In this process, one step at a time::

    import os
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    from vllm import LLM
    from pagedlab import watch
    from pagedlab.viz import memory_map

    vllm = watch.of(LLM("HuggingFaceTB/SmolLM2-135M-Instruct"))
    vllm.add_request("One block is not enough", max_tokens=40)
    memory_map(vllm)

A server, whose trace is then published for ``pagedlab attach``::

    vllm serve MODEL --scheduler-cls pagedlab.watch.WatchedScheduler

This side of it is all that a server loads: no widgets, no model of ours. Read ``hooks.py`` (what is noted, and
where), then ``tell.py`` (from notes to events), then ``driver.py``.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOME = {"of": "driver", "Watch": "driver", "WatchDriver": "driver", "WatchedScheduler": "scheduler"}

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'pagedlab.watch' has no attribute {name!r}; it has {', '.join(__all__)}")
    return getattr(import_module(f"pagedlab.watch.{_HOME[name]}"), name)
