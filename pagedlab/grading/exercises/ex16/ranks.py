"""Part 16.4: the rank that works with an old table, or with another rank's heads, in recordings of real steps."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from pagedlab.grading.draws import twice
from pagedlab.grading.exercises.ex16.recorded import with_fault
from pagedlab.grading.part import Part, Property
from pagedlab.grading.plain import is_int, raised, show
from pagedlab.grading.tasks.ex16 import probes

FAULTS = ("table", "heads")


def right(case: dict) -> list | None:
    """[rank, fault]: what the tool that recorded it did."""
    return case["truth"]


def _case(rng: random.Random, recording: dict) -> dict:
    """The step with other block numbers, and its requests in another order: neither says anything."""
    size, ranks = recording["block_size"], recording["ranks"]
    spans, end = [], 0
    for request in recording["requests"]:
        start, end = end, end + request["end"] - request["start"]
        spans.append((request, slice(start, end)))
    rng.shuffle(spans)
    old = {block for request, _ in spans for block in request["table"]}
    old |= {slot // size for rank in ranks for slot in rank["wrote"] if slot >= 0}
    new = dict(zip(sorted(old), rng.sample(range(1, 3 * len(old) + 1), len(old)), strict=True))

    def renamed(slot: int) -> int:
        return new[slot // size] * size + slot % size if slot >= 0 else slot

    requests = [request | {"table": [new[block] for block in request["table"]]} for request, _ in spans]
    did = [
        {"wrote": [renamed(slot) for _, span in spans for slot in rank["wrote"][span]], "keys": rank["keys"]}
        for rank in ranks
    ]
    truth = [recording["rank"], recording["fault"]] if recording["fault"] in FAULTS else None
    step = {"block_size": size, "requests": requests}
    return {"step": step, "heads": recording["heads"], "ranks": did, "truth": truth, "model": recording["model"]}


def _cases(rng: random.Random, seed: int) -> list[dict]:
    fixed = random.Random("16.4 always")
    cases = [_case(fixed, one) for one in with_fault(None, "silent")[::3]]  # deaf at the start has other keys, too
    cases += [_case(fixed, one) for one in with_fault(*FAULTS) for _ in range(2)]
    cases.sort(key=lambda case: len(case["ranks"]) * sum(len(rank["wrote"]) for rank in case["ranks"]))
    return [*cases, *twice(_drawn, rng, "16.4")]


def _drawn(rng: random.Random) -> list[dict]:
    kinds = [(None, "silent"), ("table",), ("heads",)]
    return [_case(rng, rng.choice(with_fault(*kinds[i % 3]))) for i in range(12)]


def _words(case: dict) -> str:
    return f"a step of {len(case['ranks'])} ranks ({case['model']}), requests {show(case['step']['requests'])}"


def _shape(case: dict, answer: Any) -> str | None:
    good = answer is None or type(answer) is list and len(answer) == 2 and not raised(answer)
    if good and answer is not None:
        good = is_int(answer[0]) and type(answer[1]) is str
    return None if good else f"for {_words(case)} wrong_rank gave {show(answer)}"


def _of(where: Callable[[list | None], bool], same: Callable[[list | None, list | None], bool]) -> Callable[..., Any]:
    def broken(case: dict, answer: Any) -> str | None:
        true = right(case)
        if not where(true) or same(answer, true):
            return None
        return f"for {_words(case)}: expected is {show(true)}, found {show(answer)}"

    return broken


RANKS = Part(
    "16.4",
    "the rank with an old table, or with another rank's heads",
    2,
    ("wrong_rank",),
    _cases,
    probes.ranks,
    (
        Property(
            "wrong_rank returns None, or a rank and its fault",
            _shape,
            ('(1, "table"), for example.',),
        ),
        Property(
            "None where every rank wrote where the tables say, and has the heads that are its own",
            _of(lambda true: true is None, lambda found, true: found is None),
            ("With more ranks than KV heads two ranks have the same keys, and that is right.",),
        ),
        Property(
            "the rank that wrote elsewhere than the tables say",
            _of(lambda true: true is not None and true[1] == "table", lambda found, true: found == true),
            (
                "Token i of a request goes into slot table[i // block_size] * block_size + i % block_size.",
                "The tokens of a step are those from start to end, request after request.",
            ),
        ),
        Property(
            "the rank whose keys are those of KV heads that belong to another rank",
            _of(lambda true: true is not None and true[1] == "heads", lambda found, true: found == true),
            (
                "Two ranks have equal keys: which of them has what it should? heads says whose keys these are.",
                "Which KV heads a rank should have follows from their number and that of the ranks, as in part 1.",
            ),
        ),
    ),
    kept_back=("truth", "model"),
)
