"""Time travel: keep a moment of the engine, go back to it, or live it again in a second engine."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pagedlab.errors import PagedlabError, whole
from pagedlab.trace.events import Event

if TYPE_CHECKING:
    from pagedlab.engine.llm import LLM

# What a step can change, besides the pool's bytes. The model's weights and the buffers are not among it.
STEP_STATE = (
    "block_pool",
    "kv_cache_manager",
    "scheduler",
    "under_way",
    "requests",
    "tables",
    "used_blocks",
    "groups",
    "step_count",
    "num_requests",
    "inputs",
)


@dataclass(frozen=True)
class Snapshot:
    """A moment of the engine. ``stored``: what lay in the executor's blocks, as only it can read it."""

    state: dict[str, Any]
    stored: Any
    events: list[Event]
    engine: LLM


def take(llm: LLM) -> Snapshot:
    """Of the pool all blocks that were ever in use: free ones too, for a table may be pointed at them by hand. Of the
    CPU's memory those in use. Steps that are under way are waited for."""
    for step in llm.under_way:
        step.wait(llm.executor)
    stored = llm.executor.snapshot(sorted(llm.used_blocks), llm.era.cpu_blocks_in_use(llm))
    state = {name: getattr(llm, name) for name in STEP_STATE}
    return Snapshot(_copy(state, llm), stored, list(llm.trace.events) if llm.recorder else [], llm)


def restore(llm: LLM, snapshot: Snapshot) -> None:
    """Raises PagedlabError, and changes nothing, for another engine's snapshot."""
    if not isinstance(snapshot, Snapshot) or snapshot.engine is not llm:
        raise PagedlabError("This is no snapshot of this engine; restore only what its own snapshot() gave.")
    later = sorted(llm.used_blocks - snapshot.state["used_blocks"])
    llm.executor.restore(snapshot.stored, clear=later)  # as nobody had written to the later ones then
    for name, value in _copy(snapshot.state, llm).items():
        setattr(llm, name, value)
    if llm.recorder:
        llm.trace.truncate(0)
        llm.trace.events.extend(snapshot.events)  # it may lie ahead: after going back, one can go forward again


def rerun(llm: LLM, upto_step: int, prompts: Mapping[str, Any], changes: dict[str, Any]) -> LLM:
    """A new engine on the same weights, given the same inputs after the same steps (but for ``prompts``, by request
    id), run to ``upto_step``."""
    upto_step = whole(upto_step, "upto_step")
    if upto_step < 0:
        raise PagedlabError(f"upto_step is {upto_step}; a run goes from step 0 on.")
    if not isinstance(prompts, Mapping):
        raise PagedlabError(f'The prompts to replace are {prompts!r}; give them by request: {{"A": "other text"}}.')
    inputs = [call for call in llm.inputs if call[0] <= upto_step]
    queued = [kwargs["request_id"] for _, name, _, kwargs in inputs if name == "add_request"]
    for request_id in prompts:
        if request_id not in queued:
            there = ", ".join(queued) or "none"
            raise PagedlabError(f"Up to step {upto_step} no request {request_id!r} was queued; there are: {there}.")
    # Only parts that were given: the other era's own ones are others.
    if {"record", "model"} & set(changes):
        raise PagedlabError("A second run has the same model and records; change its knobs or parts.")
    replaced = {name: part for name, part in llm.parts.items() if part is not llm.era.PARTS.get(name)}
    knobs = dataclasses.asdict(llm.config) | replaced | changes
    twin = type(llm)(llm, record=True, **knobs)

    def run_to(step: int) -> None:
        while twin.step_count < step and twin.has_unfinished_requests():
            twin.step()

    for step, name, args, kwargs in inputs:
        run_to(step)
        if name == "add_request" and kwargs["request_id"] in prompts:
            args = (prompts[kwargs["request_id"]], *args[1:])
        getattr(twin, name)(*args, **kwargs)
    run_to(upto_step)
    return twin


def _copy(state: dict[str, Any], llm: LLM) -> dict[str, Any]:
    """A deep copy that shares the engine and its recorder (through ``deepcopy``'s memo) instead of copying them."""
    return copy.deepcopy(state, {id(shared): shared for shared in (llm, llm.recorder)})
