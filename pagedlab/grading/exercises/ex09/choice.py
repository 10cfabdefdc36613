"""Part 09.2: two knobs, a target, and as few preemptions and trial runs as possible."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from pagedlab.grading.draws import twice
from pagedlab.grading.part import Part, Property
from pagedlab.grading.plain import is_int, raised, show
from pagedlab.grading.tasks.ex09 import probes
from pagedlab.grading.tasks.ex09.served import served

Table = list[list[dict | None]]  # [utilization][max_num_seqs]: what a run gives, None where the engine does not come up


def fewest(case: dict) -> int | None:
    """The fewest preemptions with which the target is met; None where no setting meets it."""
    ran = [found for row in case["table"] for found in row if found and found["at_once"] >= case["target"]]
    return min((found["preemptions"] for found in ran), default=None)


def found(case: dict, choice: list) -> dict | None:
    utilization, limit = choice
    return case["table"][case["utilizations"].index(utilization)][case["limits"].index(limit)]


def run_of(case: dict, question: Any) -> dict | None:
    """What the run gives that is asked about by its places in utilizations and limits; None where there is none."""
    places = question if type(question) is list and len(question) == 2 else [-1, -1]
    names = ("utilizations", "limits")
    if not all(is_int(i, 0) and i < len(case[name]) for i, name in zip(places, names, strict=True)):
        return None
    one = case["table"][places[0]][places[1]]
    return dict(one) if one else None


def most_runs(case: dict) -> int:
    return len(case["utilizations"]) + len(case["limits"])


def _ran(at_once: float, preemptions: int) -> dict:
    return {"at_once": at_once, "preemptions": preemptions}


def _cases(rng: random.Random, seed: int) -> list[dict]:
    small: Table = [[_ran(1.0, 0), _ran(1.7, 4)], [_ran(1.0, 0), _ran(2.0, 1)]]
    knobs = {"utilizations": [0.8, 0.9], "limits": [1, 2]}
    cases = [
        knobs | {"target": 1.0, "table": small},
        knobs | {"target": 1.5, "table": small},
        knobs | {"target": 2.5, "table": small},
        knobs | {"target": 1.5, "table": [small[0], [None, None]]},
        knobs | {"target": 1.5, "table": [[None, None], small[0]]},
        knobs | {"target": 1.0, "table": [[None, None], [None, None]]},
    ]
    # The only one that comes up stands anywhere among many; the widest door is the one; and so is the first.
    us, limits = [0.5, 0.6, 0.7, 0.8, 0.9, 0.95], [1, 2, 3, 4, 5, 6]
    ran = [_ran(1.0 + i, i) for i in range(6)]
    for at in (0, 1, 4):
        table = [ran if i == at else [None] * 6 for i in range(6)]
        cases += [{"utilizations": us, "limits": limits, "target": t, "table": table} for t in (0.5, 4.0, 6.0, 6.1)]
    return [*cases, *twice(_drawn, rng, "09.2")]


def _drawn(rng: random.Random) -> list[dict]:
    cases: list[dict] = []
    while len(cases) < 10:
        case = _case(rng, unreachable=len(cases) % 5 == 4)
        if case:
            cases.append(case)
    return cases


def _case(rng: random.Random, unreachable: bool) -> dict | None:
    """A workload served with every setting. None where the measurements do not keep the promises of the text, or where
    the widest door costs nothing."""
    load = [(rng.randint(2, 14), rng.randint(4, 18)) for _ in range(rng.randint(6, 9))]
    utilizations = sorted(rng.sample([u / 100 for u in range(62, 98, 2)], rng.randint(4, 6)))
    limits = sorted(rng.sample(range(1, 9), rng.randint(3, 5)))
    low, high = rng.randint(0, 1), len(utilizations) - rng.randint(0, 2)  # below no room, above out of memory
    per_hundredth, base = rng.uniform(0.2, 0.6), rng.randint(7, 9)
    rows = []
    for i, utilization in enumerate(utilizations):
        if i < low or i >= high:
            rows.append([None] * len(limits))
            continue
        num_blocks = base + int(per_hundredth * (100 * utilization - 60))
        rows.append([served(load, num_blocks, 4, limit) for limit in limits])
    good = [row for row in rows if None not in row]
    if len(good) < 2 or len(good) < high - low or not _keeps_promises(good):
        return None
    best = good[-1]
    if best[-1]["preemptions"] < 1 or good[0][-1]["preemptions"] == best[-1]["preemptions"]:
        return None
    target = rng.choice([found["at_once"] for found in best[:-1]]) - rng.choice((0.0, 0.0, 0.1))
    if unreachable:
        target = best[-1]["at_once"] + 0.1
    return {"utilizations": utilizations, "limits": limits, "target": round(target, 1), "table": rows}


def _keeps_promises(rows: Table) -> bool:
    """More memory never lets fewer run or throws more out; a wider door never lets fewer run or throws fewer out."""
    for a, b in pairwise(rows):
        if any(x["at_once"] > y["at_once"] or x["preemptions"] < y["preemptions"] for x, y in zip(a, b, strict=True)):
            return False
    return all(
        x["at_once"] <= y["at_once"] and x["preemptions"] <= y["preemptions"] for row in rows for x, y in pairwise(row)
    )


def _of(wrong: Callable[[dict, Any], str | None]) -> Any:
    def broken(case: dict, answer: dict) -> str | None:
        objection = wrong(case, answer)
        if objection is None:
            return None
        return f"utilizations {case['utilizations']}, limits {case['limits']}, target {case['target']}: {objection}"

    return broken


def _shape(case: dict, answer: dict) -> str | None:
    choice = answer["choice"]
    if choice is None:
        return None
    pair = type(choice) is list and len(choice) == 2 and not raised(choice) and type(choice[1]) is int
    if pair and type(choice[0]) is float and choice[0] in case["utilizations"] and choice[1] in case["limits"]:
        return None
    return f"choose gave {show(choice)}"


def _comes_up(case: dict, answer: dict) -> str | None:
    choice = answer["choice"]
    if choice is None or found(case, choice):
        return None
    return f"you chose {tuple(choice)}, and run{tuple(choice)} is None"


def _meets(case: dict, answer: dict) -> str | None:
    choice = answer["choice"]
    if choice is None:
        return None if fewest(case) is None else "you gave None, and there is a setting that meets it"
    ran = found(case, choice)
    if ran["at_once"] >= case["target"]:
        return None
    of = "another setting meets the target" if fewest(case) is not None else "no setting meets it, so None is expected"
    return f"you chose {tuple(choice)}, which gives {ran['at_once']} at once; {of}"


def _fewest(case: dict, answer: dict) -> str | None:
    choice = answer["choice"]
    if choice is None:
        return None
    ran = found(case, choice)
    if ran["preemptions"] == fewest(case):
        return None
    return f"you chose {tuple(choice)}, with {ran['preemptions']} preemptions; {fewest(case)} are enough"


def _runs(case: dict, answer: dict) -> str | None:
    if len(answer["asked"]) <= most_runs(case):
        return None
    return f"{len(answer['asked'])} runs, and {most_runs(case)} are allowed"


CHOICE = Part(
    "09.2",
    "a target, met with the fewest preemptions",
    2,
    ("choose",),
    _cases,
    probes.choice,
    (
        Property(
            "choose returns one of the utilizations with one of the limits, or None",
            _of(_shape),
            ("(0.9, 4), for example. run takes them in the same order.",),
        ),
        Property(
            "the engine comes up with the setting that you choose",
            _of(_comes_up),
            ("Where run gives None, nothing ran: out of memory at the upper end, no room at the lower one.",),
        ),
        Property(
            "the setting meets the target, and None means that no setting does",
            _of(_meets),
            (
                "Exactly the target is enough.",
                "Did you stop at the first None? The settings on its other side may run.",
            ),
        ),
        Property(
            "no other setting that meets the target has fewer preemptions",
            _of(_fewest),
            (
                "Which of the two knobs makes room, and which one only opens the door?",
                "Room costs nothing here: take as much as you can get. Open the door no wider than the target asks.",
            ),
        ),
        Property(
            "there are no more runs than utilizations and limits together",
            _of(_runs),
            (
                "A run is expensive. Do not try every pair.",
                "First one knob, with the other one left alone. Whether the engine comes up is not up to the limit.",
            ),
        ),
    ),
    kept_back=("table",),
    tell=run_of,
)
