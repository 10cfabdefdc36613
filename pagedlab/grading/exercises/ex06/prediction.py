"""Part 06.4: the copies of a real step, predicted."""

from __future__ import annotations

import random
from typing import Any

from pagedlab.grading.exercises.ex06.facts import Facts, facts
from pagedlab.grading.part import Part, Property
from pagedlab.grading.plain import is_ints, same, show
from pagedlab.grading.tasks.ex06 import probes


def _cases(rng: random.Random, seed: int) -> list[dict]:
    return [{"seed": seed}]


def _of(wrong: Any) -> Any:
    def broken(case: dict, answer: dict) -> str | None:
        return wrong(answer["copies"], answer["tables"], facts(case["seed"]))

    return broken


def _shape(copies: Any, tables: Any, truth: Facts) -> str | None:
    pairs = type(copies) is list and all(is_ints(pair) and len(pair) == 2 for pair in copies)
    rows = type(tables) is list and all(map(is_ints, tables)) and len(tables) == len(truth.tables)
    return None if pairs and rows else f"copies is {show(copies)} and tables is {show(tables)}"


def _count(copies: list, tables: list, truth: Facts) -> str | None:
    return None if len(copies) == len(truth.copies) else f"you predict {len(copies)} copies"


def _source(copies: list, tables: list, truth: Facts) -> str | None:
    for mine, right in zip(copies, truth.copies, strict=True):
        if mine[0] != right[0]:
            return f"you copy block {mine[0]}; the tables are {list(truth.puzzle.tables.values())}"
    return None


def _target(copies: list, tables: list, truth: Facts) -> str | None:
    return None if same(copies, truth.copies) else f"you copy to {[b for _, b in copies]}; free are {truth.puzzle.free}"


def _full(copies: list, tables: list, truth: Facts) -> str | None:
    start = truth.puzzle.num_prompt_tokens // 4
    for mine, right in zip(tables, truth.tables, strict=True):
        if mine[:start] != right[:start] or len(mine) != len(right):
            return f"one of your tables is {mine}"
    return None


def _tables(copies: list, tables: list, truth: Facts) -> str | None:
    return None if same(tables, truth.tables) else f"your tables are {tables}"


PREDICTION = Part(
    "06.4",
    "the copies of a decode step, predicted",
    2,
    ("copies", "tables"),
    _cases,
    probes.prediction,
    (
        Property(
            "copies is a list of pairs, and tables one list of blocks for each sequence",
            _of(_shape),
            ("For example copies = [(5, 6)] and tables = [[1, 6], [1, 5], [1, 5]].",),
        ),
        Property(
            "as many copies as there are writers that find the block shared",
            _of(_count),
            (
                "All three write to the same slot of the same block, one after the other.",
                "After each copy the old block has one owner less. What does the last writer find?",
            ),
        ),
        Property("what is copied is the block that is written to", _of(_source), ("It is the one that is not full.",)),
        Property(
            "copies go to the blocks that the stack gives, in its order",
            _of(_target),
            ("This era's free blocks are a stack: the right end of the list is taken first.",),
        ),
        Property(
            "full blocks stay shared, and no table grows",
            _of(_full),
            ("A copy takes the place of the old block. There is room in it for the new token.",),
        ),
        Property(
            "every table names the block that its sequence writes to",
            _of(_tables),
            ("G/0 writes first, then G/1, then G/2. Who copied, and who is left with the old block?",),
        ),
    ),
)
