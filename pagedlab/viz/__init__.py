"""The labs: pictures of memory, each computed from a trace.

``memory_map(what)`` opens one; ``what`` is an ``LLM(..., record=True)``, a driver, a trace, or the path of a saved
trace. ``fragmentation()`` serves one workload in contiguous and in paged memory, slot by slot.
``prefix_hits(what)`` shows the blocks that can be found again, and what a prompt finds.
``step_both(both)`` steps a recording of vLLM, or a live one, and our replay of it together
(``pagedlab.parity.side_by_side``).
``knobs()`` turns four knobs on a card of your choice, over a real run on this machine.
``kernel_walk(llm)`` follows one query through the watched attention kernel, block by block.
``token_budget(what)`` shows each step as a bar of tokens by request within its budget, ``plan_and_run(what)`` what is
planned while what runs.
``preemption(left, right)`` shows memory run out in two runs of one workload, and what it cost to bring victims back.
"""

from importlib import import_module
from typing import Any

_LABS = {
    "memory_map": "pagedlab.viz.memory.lab",
    "fragmentation": "pagedlab.viz.strips.lab",
    "kernel_walk": "pagedlab.viz.kernel.lab",
    "knobs": "pagedlab.viz.board.lab",
    "plan_and_run": "pagedlab.viz.shares.ahead",
    "preemption": "pagedlab.viz.victims.lab",
    "prefix_hits": "pagedlab.viz.prefix.lab",
    "step_both": "pagedlab.viz.side_by_side.lab",
    "token_budget": "pagedlab.viz.shares.lab",
}

__all__ = [
    "fragmentation",
    "kernel_walk",
    "knobs",
    "memory_map",
    "plan_and_run",
    "preemption",
    "prefix_hits",
    "step_both",
    "token_budget",
]


def __getattr__(name: str) -> Any:
    """Loaded when asked for: the terminal's picture (viz.text) needs no widgets."""
    if name not in _LABS:
        raise AttributeError(f"module 'pagedlab.viz' has no attribute {name!r}; it has {', '.join(__all__)}")
    return getattr(import_module(_LABS[name]), name)
