"""Part 12.1: who keeps wrong books about which block?"""

from __future__ import annotations

import copy
import random
from typing import Any

from pagedlab.grading.exercises.ex12.moment import changed, honest_moments, small
from pagedlab.grading.part import Part, Property
from pagedlab.grading.plain import is_ints, raised, same, show
from pagedlab.grading.tasks.ex12 import probes
from pagedlab.grading.tasks.ex12.probes import as_state
from pagedlab.trace.invariants import bookkeeping, idle


def _cases(rng: random.Random, seed: int) -> list[dict]:
    good = small()
    waiting = changed(good, requests={"B": [good["requests"]["B"][0], 0, "waiting"]})
    cases = [
        good,
        changed(good, ref_cnt={2: 1}),
        changed(good, ref_cnt={4: 2}),
        changed(good, ref_cnt={6: 1}),
        changed(good, free=[6, 3, 4], ref_cnt={4: 1}),
        changed(good, free=[6]),
        changed(waiting, requests={"A": [good["requests"]["A"][0], 5, "running"]}),
        changed(good, requests={"B": [good["requests"]["B"][0], 3, "finished"]}),
        changed(good, requests={"B": [good["requests"]["B"][0], 3, "waiting"]}),
        changed(good, requests={"A": [good["requests"]["A"][0], 5, "preempted"]}),
        changed(good, ref_cnt={0: 1}),  # the null block does not count
        changed(good, ref_cnt={1: 2}),
        changed(good, ref_cnt={1: 0}),
        changed(good, ref_cnt={6: -1}),
        changed(good, tables={"A": [2, 1, 2]}, ref_cnt={2: 2, 5: 0}, free=[6, 3, 5]),  # twice in one table
        changed(good, tables={"A": [2, 1, 5, 1]}),
        changed(good, free=[6, 3, 2]),
        changed(good, free=[3]),
        changed(good, free=[6], ref_cnt={3: 1}),  # counted, and nowhere
        changed(good, free=[6, 3, 5], requests={"A": [good["requests"]["A"][0], 5, "finished"]}),
        changed(good, tables={"B": []}, ref_cnt={2: 1, 4: 0}, free=[6, 3, 4]),
        changed(good, tables={"A": [], "B": []}, ref_cnt=[0] * 7, free=[1, 2, 3, 4, 5, 6]),
    ]
    for draw in (random.Random("12.1"), rng):
        for i, moment in enumerate(honest_moments(draw, 12)):
            cases += [moment, _spoilt(draw, moment, i)]
    return cases


def _spoilt(rng: random.Random, moment: dict, which: int) -> dict:
    """One or two books made wrong."""
    moment = copy.deepcopy(moment)
    held = sorted({block for table in moment["tables"].values() for block in table})
    kinds = ["count", "lost"] if not held else ["count", "free", "lost", "idle"]
    for kind in rng.sample(kinds, 1 + which % 2):
        if kind == "count":
            moment["ref_cnt"][rng.randrange(1, moment["num_blocks"])] += rng.choice((1, 1, -1))
        elif kind == "free":
            moment["free"].insert(0, rng.choice(held))
        elif kind == "lost" and moment["free"]:
            moment["free"].remove(rng.choice(moment["free"]))
        elif kind == "idle":
            name = rng.choice(list(moment["tables"]))
            moment["requests"][name][2] = rng.choice(("waiting", "preempted", "finished"))
    return moment


def _right(case: dict) -> dict[int, str]:
    """Each wrong block, and the first of its rules."""
    found = [*bookkeeping(as_state(case)), *idle(as_state(case))]
    return {b.block_id: b.rule for b in reversed(found)}


def _about(case: dict, block: int) -> str:
    owners = [name for name, table in case["tables"].items() if block in table]
    who = ", ".join(f"{name} ({case['requests'][name][2]})" for name in owners) or "nobody's table"
    free = "in the free queue" if block in case["free"] else "not in the free queue"
    return f"block {block} has ref_cnt {case['ref_cnt'][block]}, is {free}, and in {who}"


def _owners(case: dict) -> str:
    return f"tables {show(case['tables'])}, ref_cnt {show(case['ref_cnt'])}, free {show(case['free'])}"


def _shape(case: dict, answer: dict) -> str | None:
    blocks = answer["blocks"]
    if raised(blocks):
        return f"{_owners(case)}: wrong_blocks gave {show(blocks)}"
    return None if is_ints(blocks) else f"{_owners(case)}: wrong_blocks gave {show(blocks)}"


def _missed(rule: str) -> Any:
    def broken(case: dict, answer: dict) -> str | None:
        for block, why in sorted(_right(case).items()):
            if why == rule and block not in answer["blocks"]:
                return f"{_about(case, block)}: not in your list {show(answer['blocks'])}"
        return None

    return broken


def _kept(case: dict, answer: dict) -> str | None:
    return "the state is another one after the call" if answer["changed"] else None


def _accused(case: dict, answer: dict) -> str | None:
    for block in answer["blocks"]:
        if block not in _right(case):
            known = 0 <= block < case["num_blocks"]
            return f"{_about(case, block) if known else f'there is no block {block}'}: yet it is in your list"
    return None


def _sorted(case: dict, answer: dict) -> str | None:
    expected = sorted(set(answer["blocks"]))
    return None if same(answer["blocks"], expected) else f"expected is the list {expected}, found {answer['blocks']}"


BOOKS = Part(
    "12.1",
    "the books: owners, free queue, tables",
    2,
    ("wrong_blocks",),
    _cases,
    probes.books,
    (
        Property("wrong_blocks returns a list of block numbers", _shape, ("Plain numbers, for example [3, 7].",)),
        Property(
            "a block with nothing wrong is not accused",
            _accused,
            (
                "Shared blocks have more than one owner, free ones have none: both are in order.",
                "Block 0 is the null block. It is in no table and not free, and that is right.",
            ),
        ),
        Property(
            "a block whose ref_cnt is not the number of table entries that name it is found",
            _missed("owners"),
            ("Count over all tables how often each block stands in them. One table may name it twice.",),
        ),
        Property(
            "a block that is free and in a table is found",
            _missed("free"),
            ("It will be handed out again while somebody reads it. Look at the free queue and the tables together.",),
        ),
        Property(
            "a block that is nowhere is found",
            _missed("lost"),
            ("Nobody holds it, and it is not free either: who would ever hand it out?",),
        ),
        Property(
            "a block held by a request that does not run is found",
            _missed("idle"),
            ("Between two steps only running requests hold blocks. state.requests[name].status says who runs.",),
        ),
        Property("the state stays as it is", _kept, ("Only look: other functions look at the same state.",)),
        Property("each block once, in ascending order", _sorted, ("A block may break two rules. sorted(set(…))",)),
    ),
)
