"""A moment of memory as plain data: what the parts of exercise 12 are asked about."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any

from pagedlab.trace.replay import MemoryState


def as_data(state: MemoryState) -> dict:
    """Plain data of a V1 state."""
    return {
        "block_size": state.block_size,
        "num_blocks": state.num_blocks,
        "tables": {name: list(table) for name, table in state.tables.items()},
        "ref_cnt": list(state.ref_cnt),
        "free": list(state.free),
        "requests": {name: [list(r.token_ids), r.num_computed_tokens, r.status] for name, r in state.requests.items()},
        "slots": [[slot and [slot.request_id, slot.position, slot.token_id] for slot in b] for b in state.slots],
        "names": {
            str(block): [block_hash, state.prefixes[block_hash].parent, list(state.prefixes[block_hash].token_ids)]
            for block, block_hash in state.cached.items()
        },
    }


def small() -> dict:
    """Two requests in blocks of 2, all in order: A (5 tokens computed of 6) and B share block 2."""
    tokens = {"A": [10, 11, 12, 13, 14, 15], "B": [10, 11, 22]}
    return {
        "block_size": 2,
        "num_blocks": 7,
        "tables": {"A": [2, 1, 5], "B": [2, 4]},
        "ref_cnt": [0, 1, 2, 0, 1, 1, 0],
        "free": [6, 3],
        "requests": {"A": [tokens["A"], 5, "running"], "B": [tokens["B"], 3, "running"]},
        "slots": [
            [None, None],
            [["A", 2, 12], ["A", 3, 13]],
            [["A", 0, 10], ["A", 1, 11]],
            [["C", 0, 30], ["C", 1, 31]],
            [["B", 2, 22], None],
            [["A", 4, 14], None],
            [None, None],
        ],
        "names": {"2": ["h1", None, [10, 11]], "1": ["h2", "h1", [12, 13]], "3": ["h3", None, [30, 31]]},
    }


def changed(data: dict, **changes: Any) -> dict:
    """A copy with some entries changed: ``ref_cnt={1: 3}`` sets entry 1; anything else replaces a whole entry."""
    data = copy.deepcopy(data)
    for name, value in changes.items():
        if isinstance(data[name], list) and isinstance(value, dict):
            for key, item in value.items():
                data[name][key] = item
        elif isinstance(data[name], dict) and isinstance(value, dict):
            data[name].update(value)
        else:
            data[name] = value
    return data


def honest_moments(rng: random.Random, count: int) -> Iterator[dict]:
    """Moments between steps of honest runs, drawn anew each time."""
    from pagedlab.hunt import FAULTS, honest

    names = [name for name, fault in FAULTS.items() if fault.knobs.get("era") != "paper"]
    left = count
    while left > 0:
        trace = honest(rng.choice(names), rng.randrange(1 << 20))
        ends = trace.step_ends()
        for end in sorted(rng.sample(ends, min(4, left, len(ends)))):
            state = MemoryState.of(trace.header["config"])
            for event in trace.events[:end]:
                state.apply(event)
            yield as_data(state)
            left -= 1
