"""A recorded run of the real vLLM (``pagedlab.watch``), as the scheduler's recordings tell of one: a header with the
requests, and for each step what was decided. So our scheduler, manager and pool can be stepped beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from pagedlab.errors import PagedlabError
from pagedlab.trace import MemoryState, Trace
from pagedlab.trace import events as ev

# With the first of these a step's schedule is over, and what the model's output changes begins.
OUTPUT = (ev.SlotWritten, ev.TokenSampled, ev.RequestFinished, ev.StepEnded)


def header_of(trace: Trace, where: str) -> dict[str, Any]:
    """The header, with each request's prompt and the step before which it came. Raises PagedlabError for a run that
    our scheduler cannot repeat: an asynchronous one, one that was found in mid-run, one in which an answer ended before
    its max_tokens, or one of another engine."""
    h, config = trace.header, trace.header["config"]
    if not str(h.get("engine")).startswith("vLLM "):
        raise PagedlabError(f"{where} is no recorded run of vLLM; its engine is {h.get('engine')!r}.")
    if h.get("async_scheduling"):
        raise PagedlabError(
            f"{where} was recorded with asynchronous scheduling, which our scheduler does not do; take a run that was "
            "recorded with async_scheduling=False."
        )
    if any(isinstance(event, ev.PoolFound) for event in trace.events):
        raise PagedlabError(f"{where} begins in mid-run; only a run that is watched from its start can be repeated.")
    early = [e.request_id for e in trace.events if isinstance(e, ev.RequestFinished) and e.reason != "length"]
    if early:
        raise PagedlabError(
            f"In {where} request {early[0]!r} ended before its max_tokens, by a stop token or an abort. Record a run "
            "with ignore_eos=True and without stop tokens."
        )
    requests, steps = [], 0
    for event in trace.events:
        steps += isinstance(event, ev.StepEnded)
        if isinstance(event, ev.RequestArrived):
            came = {"req": event.request_id, "arrive": steps, "tokens": list(event.token_ids)}
            requests.append(came | {"max_tokens": event.max_tokens})
    knobs = ("num_blocks", "block_size", "max_num_seqs", "max_num_batched_tokens", "max_model_len")
    return {name: config.get(name) for name in knobs} | {
        "engine": h["engine"], "enable_caching": config.get("enable_prefix_caching"), "next_token": "recorded",
        "requests": requests, "seed": h.get("seed"),
    }  # fmt: skip


def sampled_by(trace: Trace) -> Callable[[str, int], int]:
    """(request, position) -> the token that vLLM's model chose there."""
    tokens = {(e.request_id, e.position): e.token_id for e in trace.events if isinstance(e, ev.TokenSampled)}
    return lambda request, position: tokens[request, position]


def steps_of(trace: Trace) -> Iterator[dict[str, Any]]:
    """For each step the ten fields of a scheduler's recording."""
    state, known = MemoryState.of(trace.header["config"]), set()
    step: dict[str, Any] = {}
    in_schedule = False
    for event in trace.events:
        if in_schedule and isinstance(event, OUTPUT):  # the pool as the schedule left it
            in_schedule = False
            step |= {"tables": {r: list(table) for r, table in state.tables.items()}, "free": list(state.free)}
        state.apply(event)
        match event:
            case ev.StepStarted():
                step = {"step": event.step - 1, "scheduled": {}, "new": {}}
                step |= {"resumed": [], "preempted": [], "finished": []}
                in_schedule = True
            case ev.RequestAdmitted(request_id=name) if name in known:
                step["resumed"].append(name)
            case ev.RequestAdmitted(request_id=name):
                known.add(name)
                step["new"][name] = event.num_computed_tokens
            case ev.RequestPreempted():
                step["preempted"].append(event.request_id)
            case ev.SlotWritten(request_id=name):
                step["scheduled"][name] = step["scheduled"].get(name, 0) + 1
            case ev.RequestFinished():
                step["finished"].append(event.request_id)
            case ev.StepEnded():
                for field in ("resumed", "preempted", "finished"):
                    step[field].sort()
                step["tables"] = {name: step["tables"][name] for name in step["scheduled"]}
                yield step | {"running": list(state.running), "waiting": list(state.waiting)}
