"""The ten recorded runs of parts 12.4 and 12.5.

They are stored, a few line-ups of ten, and the seed says which line-up is taken and in which order. Who records a run
knows its fault; so they are recorded elsewhere (``exercises/ex12/record.py``), from seeds that are kept there. What is
left here knows no more of a run than what happened in it. Whoever records runs of each fault (``pagedlab.hunt``) can
still compare them with these, event by event: that is the question of part 12.5, however it is gone about.
"""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path

from pagedlab.trace import Trace
from pagedlab.trace.events import from_dict

NUM_RUNS = 10
STORED = Path(__file__).with_name("lineups")


def runs(seed: int) -> dict[str, Trace]:
    """Ten recorded runs, "run 1" to "run 10": each of an engine with another one of the ten faults in it."""
    which, order = drawn(seed)
    traces = stored(which)
    return {f"run {i}": traces[place] for i, place in enumerate(order, start=1)}


def drawn(seed: int) -> tuple[int, list[int]]:
    """Which line-up a seed takes, and its runs in the order in which they are shown."""
    rng = random.Random(f"12 lineup {seed}")
    which = rng.randrange(len(list(STORED.glob("*.jsonl.gz"))))
    return which, rng.sample(range(NUM_RUNS), NUM_RUNS)


def stored(which: int) -> list[Trace]:
    """The runs of a stored line-up: lines of JSON, a header before the events of each."""
    traces: list[Trace] = []
    for line in gzip.decompress((STORED / f"{which}.jsonl.gz").read_bytes()).decode().splitlines():
        data = json.loads(line)
        if data.pop("header", False):
            traces.append(Trace(data | {"live": False}))
        else:
            traces[-1].events.append(from_dict(data))
    return traces
