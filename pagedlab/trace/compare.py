"""Two runs side by side, in figures: where they part, and what each cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pagedlab.trace import events as ev
from pagedlab.trace.recorder import Trace
from pagedlab.trace.replay import MemoryState


@dataclass(frozen=True)
class Comparison:
    """``first``: the first step after which memory is not the same in both (None: it always is). ``rows``: a name,
    the figure of one run, the figure of the other."""

    first: int | None
    rows: list[tuple[str, Any, Any]]


def compare(one: Trace, two: Trace) -> Comparison:
    """Over the steps that each has recorded."""
    a, b = _figures(one), _figures(two)
    first = next((i + 1 for i, (x, y) in enumerate(zip(a[1], b[1], strict=False)) if x != y), None)
    if first is None and len(a[1]) != len(b[1]):
        first = min(len(a[1]), len(b[1])) + 1
    return Comparison(first, [(name, a[0].get(name), b[0].get(name)) for name in dict.fromkeys([*a[0], *b[0]])])


def _figures(trace: Trace) -> tuple[dict[str, Any], list[Any]]:
    state = MemoryState.of(trace.header["config"])
    most, computed, preemptions, copies = 0, 0, 0, 0
    after, ended = [], {}
    for event in trace.events:
        state.apply(event)
        match event:
            case ev.SlotWritten():
                computed += 1
            case ev.RequestPreempted():
                preemptions += 1
            case ev.BlockCopied():
                copies += 1
            case ev.RequestFinished():
                ended[event.request_id] = state.step
            case ev.StepEnded():
                used = sum(count > 0 for count in state.ref_cnt)
                most = max(most, used)
                texts = {r: tuple(request.token_ids) for r, request in state.requests.items()}
                after.append(({r: tuple(t) for r, t in state.tables.items()}, texts))
    figures = {
        "steps": len(after),
        "most blocks in use": most,
        "tokens computed": computed,
        "preemptions": preemptions,
        "blocks copied": copies,
    }
    return figures | {f"{r} finished after step": step for r, step in ended.items()}, after
