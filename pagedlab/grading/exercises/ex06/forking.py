"""Part 06.2: fork."""

from __future__ import annotations

import random

from pagedlab.grading.draws import twice
from pagedlab.grading.part import Part, Property
from pagedlab.grading.plain import raised, same, show
from pagedlab.grading.tasks.ex06 import probes


def _cases(rng: random.Random, seed: int) -> list[dict]:
    cases = [
        {"table": [7], "owners": [1]},
        {"table": [3, 9, 4], "owners": [2, 1, 3]},
        {"table": [], "owners": []},
        {"table": [3, 900, 4], "owners": [9, 1, 40]},
    ]
    long = {"table": [3 * i for i in range(70)], "owners": [1 + i % 3 for i in range(70)]}
    return [*cases, *twice(_drawn, rng, "06.2"), long]


def _drawn(rng: random.Random) -> list[dict]:
    cases = []
    for i in range(12):
        count = 1 + i // 4
        owners = [rng.randint(1, 1 + i % 3) for _ in range(count)]
        cases.append({"table": rng.sample(range(20), count), "owners": owners})
    return cases


def _words(case: dict) -> str:
    return f"a table of the blocks {case['table']}, which have {case['owners']} owners"


def _blocks(case: dict, answer: dict) -> str | None:
    if raised(answer["child"]) or not same(answer["child"], case["table"]):
        return f"{_words(case)}: fork gave the blocks {show(answer['child'])}; expected {case['table']}"
    return None


def _records(case: dict, answer: dict) -> str | None:
    return None if answer["records"] is True else f"{_words(case)}: the child holds other records, or is no list"


def _list(case: dict, answer: dict) -> str | None:
    return None if answer["list"] is True else f"{_words(case)}: the child's table is the parent's own list"


def _parent(case: dict, answer: dict) -> str | None:
    return None if same(answer["parent"], case["table"]) else f"{_words(case)}: the parent now holds {answer['parent']}"


def _owners(case: dict, answer: dict) -> str | None:
    expected = [owners + 1 for owners in case["owners"]]
    if same(answer["owners"], expected):
        return None
    return f"{_words(case)}: after fork they have {show(answer['owners'])}; expected {expected}"


FORK = Part(
    "06.2",
    "fork copies the table and no block",
    2,
    ("fork",),
    _cases,
    probes.fork,
    (
        Property(
            "the child's table names the same physical blocks, in the same order",
            _blocks,
            (
                "All of them, the partly filled last one included.",
                "fork returns a list, and in it are records (KVCacheBlock), not their numbers.",
            ),
        ),
        Property(
            "the records are the parent's own",
            _records,
            (
                "fork returns a list of the very same KVCacheBlock objects.",
                "There is one record for each block, so that all tables see one ref_cnt. copy.deepcopy makes others.",
            ),
        ),
        Property(
            "the child's table is a list of its own",
            _list,
            ("The two go their own ways from here: what one appends, the other must not see.",),
        ),
        Property("the parent's table stays as it was", _parent, ("Read from it only.",)),
        Property(
            "each block has one owner more",
            _owners,
            (
                "Who holds a block says so in ref_cnt.",
                "One more than before, for every block of the table: others may hold it already.",
            ),
        ),
    ),
)
