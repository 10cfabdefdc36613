"""The truth about the ten runs that parts 12.4 and 12.5 ask about."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from pagedlab.grading.tasks.ex12.lineup import drawn, runs
from pagedlab.grading.tasks.ex12.watch import watch
from pagedlab.trace import Trace, invariants

RECIPES = Path(__file__).with_name("lineups.json")


def recipes() -> list[list[tuple[str, int]]]:
    """For each stored line-up, fault and seed of each of its runs."""
    return [[(fault, seed) for fault, seed in lineup] for lineup in json.loads(RECIPES.read_text(encoding="utf-8"))]


class Facts(NamedTuple):
    """Of one run: its fault, the first step in which a rule is broken, and all blocks about which one is, then."""

    fault: str
    step: int
    blocks: list[int]


@lru_cache(maxsize=64)
def facts(seed: int) -> dict[str, Facts]:
    """The truth about each run of a seed."""
    which, order = drawn(seed)
    faults = [recipes()[which][place][0] for place in order]
    return {
        name: Facts(fault, *first_alarm(trace)) for fault, (name, trace) in zip(faults, runs(seed).items(), strict=True)
    }


def first_alarm(trace: Trace) -> tuple[int, list[int]]:
    """What the rules of ``pagedlab.trace.invariants`` say of a run."""
    return watch(
        trace,
        lambda state: [b.block_id for b in (*invariants.bookkeeping(state), *invariants.idle(state))],
        lambda state: [
            (b.request_id, state.tables[b.request_id].index(b.block_id)) for b in invariants.misreads(state)
        ],
        lambda state: [b.block_id for b in invariants.names(state)],
        invariants.breaks,
    )
