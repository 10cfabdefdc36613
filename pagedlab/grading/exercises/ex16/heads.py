"""Part 16.1: which query heads and which KV heads each rank has."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from pagedlab.grading.draws import twice
from pagedlab.grading.part import Part, Property
from pagedlab.grading.plain import is_ints, raised, show
from pagedlab.grading.tasks.ex16 import probes


def right(case: dict) -> list[dict[str, list[int]]] | None:
    """By what it means: equally many query heads each, and of the KV heads those that they read; None where a rank
    would read a KV head that it has only a part of the reading of, while others are whole."""
    query, kv, ranks = case["query_heads"], case["kv_heads"], case["ranks"]
    if query % ranks or (kv % ranks if kv > ranks else ranks % kv):
        return None
    share, readers = query // ranks, query // kv
    mine = [list(range(rank * share, (rank + 1) * share)) for rank in range(ranks)]
    return [{"query": heads, "kv": sorted({head // readers for head in heads})} for heads in mine]


def _case(query_heads: int, kv_heads: int, ranks: int) -> dict:
    return {"query_heads": query_heads, "kv_heads": kv_heads, "ranks": ranks}


# Cut, copied, whole; then what cannot be cut: the query heads, the KV heads (though the query heads can), and copies
# that do not come out even.
FIXED = (
    (4, 2, 2), (9, 3, 3), (8, 8, 4), (8, 2, 4), (9, 3, 9), (8, 1, 4), (8, 1, 8), (6, 6, 6), (5, 5, 1), (12, 4, 1),
    (32, 8, 16), (9, 3, 2), (4, 4, 3), (9, 3, 6), (4, 2, 8), (12, 4, 3), (12, 6, 4), (24, 4, 6), (24, 8, 12),
    (12, 3, 2), (18, 6, 9),
)  # fmt: skip


def _cases(rng: random.Random, seed: int) -> list[dict]:
    return [*[_case(*one) for one in FIXED], *twice(_drawn, rng, "16.1")]


def _drawn(rng: random.Random) -> list[dict]:
    """Half of them can be cut, and half of those have copies."""
    cases: list[dict] = []
    kinds = ("cut", "copied", "neither")
    while len(cases) < 24:
        kv = rng.randint(1, 3 + len(cases) // 3)
        case = _case(kv * rng.randint(1, 6), kv, rng.randint(2, 4 + len(cases)))
        answer = right(case)
        kind = "neither" if answer is None else "copied" if case["ranks"] > kv else "cut"
        if kind == kinds[len(cases) % 3]:
            cases.append(case)
    return cases


def _say(case: dict, found: Any) -> str:
    given = f"split_heads({case['query_heads']}, {case['kv_heads']}, {case['ranks']})"
    return f"{given} gave {show(found)}"


def _shape(case: dict, answer: Any) -> str | None:
    good = answer is None or type(answer) is list and not raised(answer)
    for rank in answer or ():
        good = good and type(rank) is dict and sorted(rank) == ["kv", "query"] and all(map(is_ints, rank.values()))
    return None if good else _say(case, answer)


def _can_be_cut(case: dict, answer: Any) -> str | None:
    true = right(case)
    if (answer is None) == (true is None):
        return None
    return _say(case, answer) + (", and it can be cut" if answer is None else ", and it cannot be cut evenly")


def _of(wrong: Callable[[list[dict], list[dict]], bool]) -> Callable[[dict, Any], str | None]:
    def broken(case: dict, answer: Any) -> str | None:
        true = right(case)
        return _say(case, answer) if true is not None and wrong(answer, true) else None

    return broken


HEADS = Part(
    "16.1",
    "the heads of each rank",
    3,
    ("split_heads",),
    _cases,
    probes.heads,
    (
        Property(
            "split_heads returns None, or a list of dicts of query and kv, lists of head numbers",
            _shape,
            ('[{"query": [0, 1], "kv": [0]}, {"query": [2, 3], "kv": [1]}], for example.',),
        ),
        Property(
            "None where query heads or KV heads do not come out even, and only there",
            _can_be_cut,
            (
                "Every rank has equally many query heads, and equally many KV heads.",
                "With more ranks than KV heads each rank has one, and each KV head lies on equally many ranks.",
            ),
        ),
        Property(
            "every query head is on one rank, in order, and each rank has equally many",
            _of(lambda found, true: [rank["query"] for rank in found] != [rank["query"] for rank in true]),
            ("Rank 0 has the first ones, rank 1 the next ones, and so on: as many ranks as were asked for.",),
        ),
        Property(
            "a rank has the KV heads that its query heads read, and no other",
            _of(lambda found, true: [rank["kv"] for rank in found] != [rank["kv"] for rank in true]),
            (
                "How many query heads read one KV head? Query heads 0, 1, … read KV head 0.",
                "Copies stand side by side: with 2 KV heads and 4 ranks they are 0, 0, 1, 1.",
            ),
        ),
    ),
)
