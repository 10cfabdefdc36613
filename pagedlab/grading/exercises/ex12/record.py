"""Records the line-ups of exercise 12: which fault is in which run is known here alone.

    python -m pagedlab.grading.exercises.ex12.record          record the same runs again (after a change of events)
    python -m pagedlab.grading.exercises.ex12.record --new 6  draw six new line-ups and record them

Seeds are drawn from the system's randomness: nobody finds a run by recording all that there could be.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import sys

from pagedlab.grading.exercises.ex12.facts import RECIPES, recipes
from pagedlab.grading.tasks.ex12.lineup import STORED
from pagedlab.grading.tasks.small_model import on_one_core, small_model
from pagedlab.hunt import FAULTS, record
from pagedlab.trace import Trace
from pagedlab.trace.events import to_dict


def recorded(lineup: list[tuple[str, int]]) -> list[Trace]:
    """The runs of a line-up, recorded anew."""
    with on_one_core():
        return [record(fault, seed, small_model()) for fault, seed in lineup]


def _draw(count: int) -> list[list[tuple[str, int]]]:
    rng = random.SystemRandom()
    return [[(fault, rng.randrange(1 << 62)) for fault in rng.sample(list(FAULTS), len(FAULTS))] for _ in range(count)]


def _store(which: int, traces: list[Trace]) -> None:
    lines = []
    for trace in traces:
        lines.append(json.dumps({"header": True, **trace.header}))
        lines += [json.dumps(to_dict(event)) for event in trace.events]
    data = gzip.compress(("\n".join(lines) + "\n").encode(), mtime=0)  # the same runs give the same bytes
    (STORED / f"{which}.jsonl.gz").write_bytes(data)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--new", type=int, metavar="N", help="draw N new line-ups; solutions/12 then needs new answers")
    if count := parser.parse_args().new:
        lines = ",\n".join(json.dumps(lineup) for lineup in _draw(count))
        RECIPES.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
        for old in STORED.glob("*.jsonl.gz"):
            old.unlink()
    STORED.mkdir(exist_ok=True)
    for which, lineup in enumerate(recipes()):
        _store(which, recorded(lineup))


if __name__ == "__main__":
    sys.exit(main())
