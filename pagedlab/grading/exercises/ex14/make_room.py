"""Part 14.2: room for the next tokens of a running request, in every group of one pool."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from pagedlab.grading.draws import twice
from pagedlab.grading.exercises.ex14.drawn import NULL, num_out, pool_of
from pagedlab.grading.part import Part, Property
from pagedlab.grading.plain import is_ints, raised, same, show
from pagedlab.grading.tasks.ex14 import probes

WINDOWS: tuple[list[int | None], ...] = ([None, 6], [6], [None, 10, 10], [5, None, 13], [None, 3], [None], [9, 4])


def right(case: dict) -> list[Any]:
    """[whether it fits, the tables afterwards, the free queue afterwards]."""
    size, tables, queue = case["block_size"], [], list(case["queue"])
    for table, window in zip(case["tables"], case["windows"], strict=True):
        out = num_out(case["computed"], window, size)
        freed = [block for block in table[:out] if block != NULL][::-1]
        queue = [b for b in freed if b not in case["named"]] + queue + [b for b in freed if b in case["named"]]
        tables.append([NULL] * out + table[out:])
    wanted = [max(0, -(-(case["computed"] + case["new"]) // size) - len(table)) for table in tables]
    if sum(wanted) > len(queue):
        return [False, tables, queue]
    for table, count in zip(tables, wanted, strict=True):
        table += queue[:count]
        del queue[:count]
    return [True, tables, queue]


def _cases(rng: random.Random, seed: int) -> list[dict]:
    two = {"tables": [[1, 2, 3], [4, 5, 6]], "windows": [None, 6], "block_size": 4, "computed": 12}
    both = two | {"windows": [6, 5], "tables": [[1, 2, 3, 13], [4, 5, 6, 14]], "computed": 16}
    cases = [
        two | {"queue": [8, 7, 9], "named": [1, 2, 3, 9], "new": 1},  # what falls out has no hash, and is taken at once
        two | {"queue": [8, 7, 9], "named": [1, 2, 3, 4, 5, 9], "new": 1},  # it has one
        two | {"queue": [7], "named": [4], "new": 1},  # it fits with what falls out, and not without
        two | {"queue": [], "named": [4], "new": 1},  # one block, and two groups want one
        two | {"queue": [7, 9], "named": [9], "new": 8},  # three blocks, and four are wanted: what fell out stays out
        two | {"queue": [7, 9, 8], "named": [9], "new": 8},
        two | {"queue": [7, 8], "named": [5], "new": 0 + 4, "computed": 11, "windows": [None, 3]},
        two | {"queue": [8], "named": [], "new": 1, "computed": 10},  # room is there already
        two | {"queue": [8, 9, 10, 11, 12], "named": [4, 5, 12], "new": 5, "tables": [[1, 2, 3, 13], [0, 5, 6, 14]]},
        two | {"queue": [7, 8], "named": [5], "new": 1, "computed": 3, "block_size": 1},  # nothing is out yet
        both | {"queue": [7], "named": [], "new": 4},  # both give back, one after the other
        both | {"queue": [7], "named": [2, 5, 3], "new": 8},
        both | {"queue": [], "named": [1, 2, 4, 5], "new": 16},
        both | {"queue": [], "named": [2, 4], "new": 17},
    ]
    return [*cases, *twice(_drawn, rng, "14.2")]


def _drawn(rng: random.Random) -> list[dict]:
    """A third of them with as much room as is wanted, a third with a block less, where any is wanted."""
    cases = []
    for i in range(27):
        windows, size = rng.choice(WINDOWS), (4, 4, 2, 16)[i % 4]
        computed, new = rng.randint(1, 16 + size * i // 4), rng.randint(1, 3 * size) if i % 2 else 1
        case = {"windows": windows, "block_size": size, "computed": computed, "new": new}
        case |= pool_of(rng, computed, windows, size, num_free=4 * len(windows) + rng.randint(0, 6))
        fits, tables, queue = right(case)
        if i % 3 and fits:
            wanted = sum(len(after) - len(before) for after, before in zip(tables, case["tables"], strict=True))
            given_back = len(queue) + wanted - len(case["queue"])
            num_free = max(0, wanted - given_back - (i % 3 == 2))
            case["queue"] = case["queue"][:num_free]
            named = {block for table in case["tables"] for block in table} | set(case["queue"])
            case["named"] = [block for block in case["named"] if block in named]
        cases.append(case)
    return cases


def _say(case: dict, expected: str, found: Any) -> str:
    given = (
        f"windows {case['windows']}, blocks of {case['block_size']}, tables {case['tables']}, free queue "
        f"{case['queue']}, with a hash {case['named']}, {case['computed']} computed and {case['new']} new tokens"
    )
    return f"{given}: expected {expected}, found {show(found)}"


def _shape(case: dict, answer: Any) -> str | None:
    three = type(answer) is list and len(answer) == 3 and not raised(answer)
    if three and type(answer[0]) is bool and type(answer[1]) is list and is_ints(answer[2]):
        if len(answer[1]) == len(case["tables"]) and all(map(is_ints, answer[1])):
            return None
    return f"make_room gave {show(answer)}"


def _nulls(table: list[int]) -> int:
    return sum(block == NULL for block in table)


def _of(words: str, part: Callable[[list], Any]) -> Callable[[dict, Any], str | None]:
    def broken(case: dict, answer: list) -> str | None:
        expected, found = part(right(case)), part(answer)
        return None if same(found, expected) else _say(case, f"{words} {expected}", found)

    return broken


MAKE_ROOM = Part(
    "14.2",
    "room for a step, in every group",
    3,
    ("make_room",),
    _cases,
    probes.make_room,
    (
        Property(
            "make_room returns True or False, the tables, and the free queue",
            _shape,
            ("Tables and queue are lists of block numbers; there are as many tables as groups.",),
        ),
        Property(
            "what is out of a window is null afterwards, whether the rest fits or not",
            _of("are so many nulls:", lambda one: [_nulls(table) for table in one[1]]),
            (
                "A group without a window gives nothing back. Where the window is None, that is such a group.",
                "The windows give back first. Then it is looked whether there are enough blocks.",
            ),
        ),
        Property(
            "it fits where all groups together find enough free blocks",
            _of("is", lambda one: one[0]),
            (
                "Every group wants blocks of its own, from the one queue. Add up what they want.",
                "What has fallen out is free by then. A null is a place in the table, and no block is wanted for it.",
            ),
        ),
        Property(
            "each table has places for all tokens then, and no more than it needs",
            _of("are tables of these lengths:", lambda one: [len(table) for table in one[1]]),
            ("Computed tokens and new ones, in whole blocks. Where nothing fits, no group gets any.",),
        ),
        Property(
            "new blocks come from the head of the queue, group after group",
            _of("are the tables", lambda one: one[1]),
            (
                "All groups give back before the first one takes.",
                "Without a hash to the head, as one run in the order given back; with one to the tail. Then take.",
            ),
        ),
        Property(
            "the free queue is what is left, in its order",
            _of("is the queue", lambda one: one[2]),
            ("With a hash to the tail, the rightmost block of the table first. Group 0 before group 1.",),
        ),
    ),
)
