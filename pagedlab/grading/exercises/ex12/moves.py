"""Part 12.3: which events should never have happened?"""

from __future__ import annotations

import random
from functools import lru_cache
from typing import Any

from pagedlab.grading.part import OfErrors, Part, Property
from pagedlab.grading.plain import is_ints, raised, show
from pagedlab.grading.tasks.ex12 import probes
from pagedlab.grading.tasks.ex12.probes import follow
from pagedlab.trace import MemoryState
from pagedlab.trace.events import from_dict, to_dict
from pagedlab.trace.invariants import breaks

RUNS = ("stale name", "full hit", "late copy", "free order", "old table")


def _cases(rng: random.Random, seed: int) -> list[dict]:
    return sorted([*_always(), *_runs(rng)], key=lambda case: len(case["events"]))


def _runs(rng: random.Random) -> list[dict]:
    from pagedlab.hunt import honest, record

    return [_case(run(name, rng.randrange(1 << 20))) for name in RUNS for run in (honest, record)]


def _case(trace: Any) -> dict:
    config = {k: trace.header["config"][k] for k in ("num_blocks", "block_size", "era")}
    return {"config": config, "events": [to_dict(event) for event in trace.events]}


@lru_cache(maxsize=1)
def _always() -> list[dict]:
    """Runs that are asked about in every check, and the same with one event changed so that another rule is broken."""
    runs = _runs(random.Random("12.3"))
    honest = runs[::2]
    beyond = [_edited(honest, edit) | {"beyond": True} for edit in BEYOND]
    return [*runs, *(_edited(honest, edit) for edit in EDITS), *beyond]


def _edited(runs: list[dict], edit: Any) -> dict:
    """The first run in which an edit can be made, up to there. ``edit(state before, event as data)`` gives the events
    in its place, or None where it does not fit."""
    for run in runs:
        state = MemoryState.of(run["config"])
        for i, event in enumerate(run["events"]):
            if (instead := edit(state, event)) is not None:
                return {"config": run["config"], "events": [*run["events"][:i], *instead]}
            state.apply(from_dict(event))
    raise AssertionError("no run has such an event")


def _writes(change: Any) -> Any:
    """An edit of a write in a full block's middle: its neighbour slot is empty, and its request has two blocks."""

    def edit(state: MemoryState, event: dict) -> list[dict] | None:
        if event["kind"] != "slot_written" or not 0 < event["offset"] < state.block_size - 1:
            return None
        if len(state.tables.get(event["request_id"], ())) < 2 or event["position"] < state.block_size:
            return None
        return [event | change(state, event)]

    return edit


def _table(state: MemoryState, event: dict) -> list[int]:
    return state.tables[event["request_id"]]


def _lookups(change: Any) -> Any:
    """An edit of a lookup that found two blocks or more."""

    def edit(state: MemoryState, event: dict) -> list[dict] | None:
        if event["kind"] != "prefix_looked_up" or len(event["block_ids"]) < 2:
            return None
        return [event | {"block_ids": change(state, list(event["block_ids"]))}]

    return edit


def _one_more(state: MemoryState, event: dict) -> list[dict] | None:
    """A lookup finds a block for each full one of a request's tokens, and then one more."""
    if event["kind"] != "prefix_looked_up":
        return None
    tokens, size = state.requests[event["request_id"]].token_ids, state.block_size
    block_of = {state.prefixes[name].token_ids: block for block, name in state.cached.items()}
    full = [tuple(tokens[i : i + size]) for i in range(0, len(tokens) - size + 1, size)]
    if not full or any(own not in block_of for own in full):
        return None
    return [event | {"block_ids": [block_of[own] for own in (*full, full[-1])]}]


def _nameless(state: MemoryState) -> int:
    return next(block for block in range(1, state.num_blocks) if block not in state.cached)


def _twice(state: MemoryState, event: dict) -> list[dict] | None:
    return [event, event] if event["kind"] == "slot_written" and event["offset"] else None


def _evicted(copy: bool) -> Any:
    """A name is forgotten before the one behind it; with a ``copy``, another block has it still."""

    def edit(state: MemoryState, event: dict) -> list[dict] | None:
        if event["kind"] != "block_cached" or event["parent_hash"] is None:
            return None
        parent = event["parent_hash"]
        block = next(b for b, name in state.cached.items() if name == parent)
        first = state.prefixes[parent]
        again = event | {
            "block_id": _nameless(state),
            "block_hash": parent,
            "parent_hash": first.parent,
            "token_ids": list(first.token_ids),
        }
        gone = {"kind": "block_evicted", "source": "", "block_id": block, "block_hash": parent}
        return [event, *[again] * copy, gone]

    return edit


EDITS = (
    _writes(lambda state, event: {"offset": event["offset"] + 1}),  # the right block, another offset
    _writes(lambda state, event: {"block_id": state.free[-1]}),  # another block, the right offset
    _writes(lambda state, event: {"block_id": state.tables[event["request_id"]][0]}),  # the request's own, and full
    _writes(lambda state, event: {"position": event["position"] + state.block_size}),
    _twice,
    _lookups(lambda state, blocks: blocks[::-1]),
    _lookups(lambda state, blocks: blocks[1:]),
    _lookups(lambda state, blocks: [*blocks[:-1], _nameless(state)]),
    _lookups(lambda state, blocks: [_nameless(state), *blocks[1:]]),
    _lookups(lambda state, blocks: [blocks[0], blocks[0]]),
    _lookups(lambda state, blocks: blocks[:1]),
    _lookups(lambda state, blocks: []),
    _evicted(copy=False),
    _evicted(copy=True),
)
# Where there is nothing: behind the table, one block and more; a request that holds no blocks; behind the pool's end;
# behind the block's end; behind a request's tokens.
BEYOND = (
    _writes(lambda state, event: {"position": state.block_size * len(_table(state, event)) + event["offset"]}),
    _writes(lambda state, event: {"position": event["position"] + state.block_size * len(_table(state, event))}),
    _writes(lambda state, event: {"request_id": "Z"}),
    _writes(lambda state, event: {"block_id": state.num_blocks}),
    _writes(lambda state, event: {"offset": event["offset"] + state.block_size}),
    _lookups(lambda state, blocks: [*blocks[:-1], state.num_blocks]),
    _one_more,
)


def _right(case: dict) -> list[int]:
    return _known(case["config"]["num_blocks"], case["config"]["era"], repr(case["events"]))


@lru_cache(maxsize=64)
def _known(num_blocks: int, era: str, events: str) -> list[int]:
    import ast

    config = {"num_blocks": num_blocks, "block_size": 4, "era": era}
    return follow({"config": config, "events": ast.literal_eval(events)}, breaks)


def _shape(case: dict, answer: dict) -> str | None:
    if is_ints(answer["alarms"]) or _fails_beyond(case, answer):
        return None
    return f"suspicious gave {show(answer['alarms'])}"


def _fails_beyond(case: dict, answer: dict) -> str | None:
    """What an event that names what there is not was answered with, where that is an error."""
    if not ("beyond" in case and raised(answer["alarms"])):
        return None
    i = len(case["events"]) - 1
    return OfErrors(f"{_tell(case, i)} {_around(case, i)}: suspicious gave {show(answer['alarms'])}")


def _tell(case: dict, i: int) -> str:
    event = case["events"][i]
    left_out = ("kind", "source", "text", "parent_hash")
    fields = ", ".join(f"{name} {show(value, 60)}" for name, value in event.items() if name not in left_out)
    return f"event {i} of a run, {event['kind']} ({fields})"


def _alarms(answer: dict) -> list[int]:
    return [] if raised(answer["alarms"]) else answer["alarms"]


def _false_alarm(case: dict, answer: dict) -> str | None:
    right = _right(case)
    for i in _alarms(answer):
        if i not in right:
            return f"{_tell(case, i)} {_around(case, i)}: no rule of this part is broken, and you raise an alarm"
    return None


def _missed(kind: str) -> Any:
    def broken(case: dict, answer: dict) -> str | None:
        for i in () if raised(answer["alarms"]) else _right(case):
            if case["events"][i]["kind"] == kind and i not in answer["alarms"]:
                return f"{_tell(case, i)} {_around(case, i)}: no alarm"
        return None

    return broken


def _around(case: dict, i: int) -> str:
    """What of memory matters for this event."""
    state = MemoryState.of(case["config"])
    for data in case["events"][:i]:
        state.apply(from_dict(data))
    event = case["events"][i]
    if event["kind"] == "slot_written":
        table = state.tables.get(event["request_id"])
        if not (event["block_id"] < state.num_blocks and event["offset"] < state.block_size):
            return f"while the table was {table}, and there is no such slot"
        there = state.slots[event["block_id"]][event["offset"]]
        holds = f"{there.request_id}'s token {there.position}" if there else "nothing"
        return f"while the table was {table} and the slot held {holds}"
    if event["kind"] == "prefix_looked_up":
        named = {b: list(state.prefixes[state.cached[b]].token_ids) for b in event["block_ids"] if b in state.cached}
        tokens = state.requests[event["request_id"]].token_ids
        return f"while the tokens were {show(tokens, 60)} and the blocks' names stood for {named}"
    if event["kind"] == "block_evicted":
        behind = [h for h, prefix in state.prefixes.items() if prefix.parent == event["block_hash"]]
        copies = state.prefixes[event["block_hash"]].copies
        return f"while {len(behind)} names had this one as their parent, and {copies} blocks had it"
    return ""


MOVES = Part(
    "12.3",
    "the moves: writes, lookups, evictions",
    2,
    ("suspicious",),
    _cases,
    probes.moves,
    (
        Property(
            "suspicious(state, event) can be asked about every event",
            _shape,
            ("Look at event.kind first. Most kinds are never suspicious: say False.",),
        ),
        Property(
            "an event that breaks no rule raises no alarm",
            _false_alarm,
            (
                "The state is that before the event. A slot that is empty then may be written.",
                "A name may be forgotten as long as another block has it too (copies), or nothing comes behind it.",
            ),
        ),
        Property(
            "a write to another place than the table's, or onto a token, raises an alarm",
            _missed("slot_written"),
            (
                "divmod(event.position, state.block_size) is the logical block and the offset.",
                "Two questions: is this the block that the table names there? And is the slot empty?",
            ),
        ),
        Property(
            "a lookup that finds what is not there raises an alarm",
            _missed("prefix_looked_up"),
            (
                "Each block in event.block_ids must have a name: state.cached.",
                "And the name must stand for the tokens that the request has in that logical block.",
            ),
        ),
        Property(
            "a name that is forgotten before those behind it raises an alarm",
            _missed("block_evicted"),
            (
                "A prefix is looked up from the left. What becomes of a block whose parent's name is gone?",
                "state.prefixes[name].parent says which name is before it. Does any have this one as its parent?",
            ),
        ),
        Property(
            "an event that names what there is not raises an alarm, and no error",
            _fails_beyond,
            (
                "Such a position is behind the table's end, such a request holds no blocks, such a block has no slots.",
                "Look whether there is such an entry before you read it; dict.get helps where there may be no key.",
            ),
        ),
    ),
    kept_back=("beyond",),
)
