"""The engine's own steps, beside what an answer says of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pagedlab.engine import LLM


def steps(llm: LLM) -> Iterator[tuple[list[dict], list[dict], list[tuple[str, int]]]]:
    """Run to the end. Of each step: who ran and who waited before it, as exercise 13 says it, and what our scheduler
    gave whom."""
    while llm.has_unfinished_requests():
        running = [_request(r, "computed", r.num_computed_tokens) for r in llm.scheduler.running]
        waiting = [_request(r, "found", found(llm, r)) for r in llm.scheduler.waiting]
        before = len(llm.trace.events)
        llm.step()
        written: dict[str, int] = {}
        for event in llm.trace.events[before:]:
            if event.kind == "slot_written":
                written[event.request_id] = written.get(event.request_id, 0) + 1
        yield running, waiting, list(written.items())


def _request(request: Any, name: str, number: int) -> dict:
    return {"name": request.request_id, "tokens": request.num_tokens, name: number}


def found(llm: LLM, request: Any) -> int:
    """How many of its tokens it would find in memory now."""
    hits = llm.kv_cache_manager.get_computed_blocks(request)
    return hits[1]


def prompt_of(llm: LLM, request_id: str) -> list[int]:
    """The token ids of a prompt that this engine was given."""
    arrived = (e for e in llm.trace.events if e.kind == "request_arrived" and e.request_id == request_id)
    return list(next(arrived).token_ids)
