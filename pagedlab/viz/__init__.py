"""The labs: pictures of memory, each computed from a trace.

``memory_map(what)`` opens one; ``what`` is an ``LLM(..., record=True)``, a driver, a trace, or the path of a saved
trace.
"""

from typing import Any

__all__ = ["memory_map"]


def __getattr__(name: str) -> Any:
    """Loaded when asked for: the terminal's picture (viz.text) needs no widgets."""
    if name != "memory_map":
        raise AttributeError(f"module 'pagedlab.viz' has no attribute {name!r}; it has {', '.join(__all__)}")
    from pagedlab.viz.lab import memory_map

    return memory_map
