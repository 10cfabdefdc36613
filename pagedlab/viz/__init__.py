"""The labs: pictures of memory, each computed from a trace.

``memory_map(what)`` opens one; ``what`` is an ``LLM(..., record=True)``, a driver, a trace, or the path of a saved
trace. ``fragmentation()`` serves one workload in contiguous and in paged memory, slot by slot.
``prefix_hits(what)`` shows the blocks that can be found again, and what a prompt finds.
``kernel_walk(llm)`` follows one query through the watched attention kernel, block by block.
"""

from importlib import import_module
from typing import Any

_LABS = {
    "memory_map": "pagedlab.viz.lab",
    "fragmentation": "pagedlab.viz.fragmentation_lab",
    "kernel_walk": "pagedlab.viz.kernel_lab",
    "prefix_hits": "pagedlab.viz.prefix_lab",
}

__all__ = ["fragmentation", "kernel_walk", "memory_map", "prefix_hits"]


def __getattr__(name: str) -> Any:
    """Loaded when asked for: the terminal's picture (viz.text) needs no widgets."""
    if name not in _LABS:
        raise AttributeError(f"module 'pagedlab.viz' has no attribute {name!r}; it has {', '.join(__all__)}")
    return getattr(import_module(_LABS[name]), name)
