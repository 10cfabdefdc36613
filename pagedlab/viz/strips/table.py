"""Contiguous and paged memory in five rows, each cell counted in a run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from statistics import mean
from typing import Any

from pagedlab.trace import MemoryState, Trace, replay
from pagedlab.trace import events as ev
from pagedlab.viz.strips import words
from pagedlab.viz.strips.run import StripState, moments

ROWS = {
    "layout": "layout: pieces that a request lies in",
    "when": "when allocated: slots for one request",
    "internal": "internal fragmentation: slots held that never hold a token",
    "external": "external fragmentation: free slots of no use to the next one",
    "utilization": "utilization: slots that hold a token",
}


def comparison(traces: Mapping[str, Trace]) -> Any:
    """A table (IPython Markdown) of the runs of one workload: five rows, a column for each kind of memory."""
    from IPython.display import Markdown

    columns = [measure(kind, states) for kind, states in _states(traces).items()]
    lines = ["| | " + " | ".join(column["name"] for column in columns) + " |", "|---" * (len(columns) + 1) + "|"]
    for key, row in ROWS.items():
        lines.append(f"| {row} | " + " | ".join(column[key] for column in columns) + " |")
    return Markdown("\n".join(lines))


def measure(kind: str, strips: list[StripState]) -> dict[str, str]:
    """The five cells of one run, and its name. ``strips``: after each step's writing, before the finished ones leave.
    Means are over these."""
    total = strips[0].num_slots
    pieces = {n for strip in strips for n in _pieces(strip)}
    # What each request got, in order: at its start, and later.
    got: dict[str, list[int]] = defaultdict(list)
    for event in (event for strip in strips for event in strip.events):
        if isinstance(event, ev.RegionReserved):
            got[event.request_id].append(event.length)
        elif isinstance(event, ev.BlocksAllocated):
            got[event.request_id].append(len(event.block_ids) * strips[0].block_size)
    first = mean(slots[0] for slots in got.values())
    later = mean(sum(slots[1:]) for slots in got.values())
    counts = {what: [strip.num(what) for strip in strips] for what in ("token", "internal", "external")}
    return {
        "name": words.name(strips[0]),
        "layout": "always 1" if pieces == {1} else f"{min(pieces)} to {max(pieces)}",
        "when": f"{first:.1f} at its start, " + (f"{later:.1f} later, block by block" if later else "nothing later"),
        "internal": f"{mean(counts['internal']):.1f} of {total} (at worst {max(counts['internal'])})",
        "external": f"{mean(counts['external']):.1f} of {total} (at worst {max(counts['external'])})",
        "utilization": f"{mean(counts['token']) / total:.0%} of all, {_of_held(strips):.0%} of those held",
    }


def _states(traces: Mapping[str, Trace]) -> dict[str, list[StripState]]:
    """Each run after each of its steps' writing."""
    traces = dict(traces)
    points = [moment for moment in moments(traces) if moment.phase == "tokens"]
    result = {}
    for kind, trace in traces.items():
        result[kind], before = [], 0
        for moment in points[: len(trace.step_ends())]:
            end = moment.num_events[kind]
            state: MemoryState = replay(trace, end)
            result[kind].append(StripState(kind, trace.header["config"], state, trace.events[before:end]))
            before = end
    return result


def _pieces(strip: StripState) -> list[int]:
    """In how many pieces each request lies that is in memory."""
    tables = [list(table) for table in strip.state.tables.values() if table]
    return [1] * len(strip.state.regions) + [
        1 + sum(a + 1 != b for a, b in zip(table, table[1:], strict=False)) for table in tables
    ]


def _of_held(strips: list[StripState]) -> float:
    held = sum(strip.num_slots - sum(hole.length for hole in strip.holes) for strip in strips)
    return sum(strip.num("token") for strip in strips) / held
