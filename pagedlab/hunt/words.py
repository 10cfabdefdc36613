"""When does a user notice? A faulty run beside the honest one, word by word."""

from __future__ import annotations

from pagedlab.trace import Trace
from pagedlab.trace import events as ev


def first_wrong_word(trace: Trace, honest: Trace) -> int | None:
    """The step in which some request first says another token than in the honest run of the same workload. None where
    that never happens. (What it says after a wrong word is not counted: it goes on from there.)"""
    right = {(e.request_id, e.position): e.token_id for e in honest.events if isinstance(e, ev.TokenSampled)}
    step = 0
    for event in trace.events:
        if isinstance(event, ev.StepStarted):
            step = event.step
        elif isinstance(event, ev.TokenSampled):
            if right.get((event.request_id, event.position), event.token_id) != event.token_id:
                return step
    return None


def generated_text(trace: Trace, request_id: str) -> str:
    """What a request said, as text."""
    return "".join(e.text for e in trace.events if isinstance(e, ev.TokenSampled) and e.request_id == request_id)
