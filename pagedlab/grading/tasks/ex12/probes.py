"""How the answers of exercise 12 are asked for."""

from __future__ import annotations

from typing import Any

from pagedlab.errors import PagedlabError
from pagedlab.grading.plain import NotPlain, attempt
from pagedlab.grading.tasks.values import values
from pagedlab.trace import MemoryState
from pagedlab.trace.events import from_dict
from pagedlab.trace.replay import CachedPrefix, RequestState, Slot


def as_state(data: dict) -> MemoryState:
    """The state that ``data`` tells of."""
    state = MemoryState.initial(data["num_blocks"], data["block_size"])
    state.tables = {name: list(table) for name, table in data["tables"].items()}
    state.ref_cnt, state.free = list(data["ref_cnt"]), list(data["free"])
    for name, (tokens, computed, status) in data["requests"].items():
        texts = ["·"] * len(tokens)  # which says nothing: two tokens may have one text
        request = RequestState(name, list(tokens), texts, len(tokens), 99, status, computed, root=name)
        state.requests[name] = request
    state.slots = [[slot and Slot(slot[0], slot[1], slot[2], "·") for slot in b] for b in data["slots"]]
    for block, (block_hash, parent, tokens) in data["names"].items():
        state.cached[int(block)] = block_hash
        state.prefixes[block_hash] = CachedPrefix(parent, tuple(tokens))
    state.running = [name for name, request in state.requests.items() if request.status == "running"]
    return state


def books(objects: dict[str, Any], case: dict) -> dict:
    state = as_state(case)
    blocks = attempt(objects["wrong_blocks"], state)
    return {"blocks": blocks, "changed": state != as_state(case)}


def contents(objects: dict[str, Any], case: dict) -> dict:
    one, two = as_state(case), as_state(case)
    found = {"reads": attempt(objects["misreads"], one), "names": attempt(objects["false_names"], two)}
    return found | {"changed": not one == two == as_state(case)}


def follow(case: dict, ask: Any) -> list[int]:
    """The indices of the events to which ``ask(state before, event)`` says yes."""
    state, found = MemoryState.of(case["config"]), []
    for i, data in enumerate(case["events"]):
        event = from_dict(data)
        if ask(state, event):
            found.append(i)
        if i + 1 < len(case["events"]):  # the last one may be one that cannot be
            try:
                state.apply(event)
            except PagedlabError:  # it fits a state that was only looked at
                raise NotPlain("another state than it was asked about: only look at it") from None
    return found


def moves(objects: dict[str, Any], case: dict) -> dict:
    return {"alarms": attempt(follow, case, lambda state, event: bool(objects["suspicious"](state, event)))}


PROBES = {"12.1": books, "12.2": contents, "12.3": moves, "12.4": values, "12.5": values}
