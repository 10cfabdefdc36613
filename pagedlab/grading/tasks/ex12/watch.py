"""Follows a run with somebody's checkers and stops at the first step with an alarm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pagedlab.trace import MemoryState, Trace
from pagedlab.trace.events import StepEnded


def watch(
    trace: Trace,
    wrong_blocks: Callable[[MemoryState], list[int]],
    misreads: Callable[[MemoryState], list[tuple[str, int]]],
    false_names: Callable[[MemoryState], list[int]],
    suspicious: Callable[[MemoryState, Any], Any],
) -> tuple[int, list[int]] | None:
    """(The step, the blocks about which there was an alarm in it), or None for a run without one.

    ``suspicious`` is asked before each event, the other three at the end of each step.
    """
    state, blocks = MemoryState.of(trace.header["config"]), set()
    for event in trace.events:
        if suspicious(state, event):
            blocks.update(getattr(event, "block_ids", ()) or [event.block_id])
        state.apply(event)
        if isinstance(event, StepEnded):
            blocks.update(wrong_blocks(state), false_names(state))
            blocks.update(state.tables[name][logical] for name, logical in misreads(state))
            if blocks:
                return state.step, sorted(blocks)
    return (state.step, sorted(blocks)) if blocks else None
