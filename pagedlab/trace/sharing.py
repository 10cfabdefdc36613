"""How much memory did sharing save in a run? Read from its events, whatever the era."""

from __future__ import annotations

from dataclasses import dataclass

from pagedlab.trace import events as ev
from pagedlab.trace.recorder import Trace
from pagedlab.trace.replay import MemoryState


@dataclass(frozen=True)
class Sharing:
    """``blocks``: the most that were in use at once. ``blocks_without_sharing``: the most that the same tables would
    have needed, each with blocks of its own. ``saved``: the share of blocks that sharing spared, over all steps
    together, 0.0 to 1.0 (the paper's measure, section 6.3). ``prompt_tokens_computed``: how often a token of a prompt
    went through the model."""

    blocks: int
    blocks_without_sharing: int
    saved: float
    copies: int
    tokens_computed: int
    prompt_tokens_computed: int


def sharing(trace: Trace) -> Sharing:
    """Follow the run through. Each step is looked at when the model writes into it: all its blocks are there, and the
    sequences are those that the model reads (afterwards some fork, and some end)."""
    state = MemoryState.of(trace.header["config"])
    used, alone, copies, computed, of_prompts = [], [], 0, 0, 0
    looked = False
    for event in trace.events:
        state.apply(event)
        if isinstance(event, ev.StepStarted):
            looked = False
        elif isinstance(event, ev.BlockCopied):
            copies += 1
        elif isinstance(event, ev.SlotWritten):
            if not looked:
                looked = True
                used.append(sum(count > 0 for count in state.ref_cnt))
                alone.append(sum(len(table) for table in state.tables.values()))
            computed += 1
            of_prompts += event.position < state.requests[event.request_id].num_prompt_tokens
    saved = 1 - sum(used) / sum(alone) if sum(alone) else 0.0
    return Sharing(max(used, default=0), max(alone, default=0), saved, copies, computed, of_prompts)
