"""Part 14.1: which blocks fall out of a window, and in which order they are given back."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from pagedlab.grading.draws import twice
from pagedlab.grading.exercises.ex14.drawn import NULL, num_out, table_of
from pagedlab.grading.part import Part, Property
from pagedlab.grading.plain import is_ints, raised, same, show
from pagedlab.grading.tasks.ex14 import probes

SIZES = (4, 4, 2, 16, 3, 1)


def right(case: dict) -> list[list[int]]:
    """[the table afterwards, the blocks in the order in which they are given back]."""
    table, out = case["table"], num_out(case["computed"], case["window"], case["block_size"])
    freed = [block for block in reversed(table[:out]) if block != NULL]
    return [[NULL] * out + table[out:], freed]


def _cases(rng: random.Random, seed: int) -> list[dict]:
    # A window's last token at every place in a block; nothing out yet; all at once after a long prompt; some gone.
    cases = [_case([7, 2, 5, 9], computed, 6, 4) for computed in range(4, 17)]
    cases += [_case([NULL, 2, 5, 9], computed, 6, 4) for computed in (9, 12, 13, 16)]
    cases += [_case([NULL, NULL, 5, 9, 1], 17, 6, 4), _case([NULL, NULL, 5, 9, 1], 18, 2, 4)]
    cases += [
        _case([3, 8], 8, 100, 4),
        _case([3, 8], 8, 9, 4),
        _case([3, 8], 8, 8, 4),
        _case([4, 6, 1], 3, 2, 1),
        _case([4, 6], 2, 9, 1),
    ]
    long = list(range(60, 20, -1))
    cases += [_case(long, 640, window, 16) for window in (600, 129, 128, 17, 16)]
    return [*cases, *twice(_drawn, rng, "14.1")]


def _drawn(rng: random.Random) -> list[dict]:
    cases = []
    for i in range(20):
        size, window = SIZES[i % len(SIZES)], rng.randint(2, 30)
        computed = rng.randint(1, 20 + 3 * i)
        ids = rng.sample(range(1, 200), 120)
        cases.append(_case(table_of(rng, ids, computed, window, size, ahead=i % 2), computed, window, size))
    return cases


def _case(table: list[int], computed: int, window: int, block_size: int) -> dict:
    return {"table": table, "computed": computed, "window": window, "block_size": block_size}


def _say(case: dict, expected: str, found: Any) -> str:
    given = f"falls_out({case['table']}, {case['computed']}, {case['window']}, {case['block_size']})"
    return f"{given}: expected is {expected}, found {show(found)}"


def _shape(case: dict, answer: Any) -> str | None:
    two = type(answer) is list and len(answer) == 2 and not raised(answer)
    if two and all(map(is_ints, answer)):
        return None
    return f"falls_out({case['table']}, …) gave {show(answer)}"


def _length(case: dict, answer: list) -> str | None:
    if len(answer[0]) == len(case["table"]):
        return None
    return _say(case, f"a table of {len(case['table'])} entries", answer[0])


def _of(which: int, sort: Callable[[list], list] = list) -> Callable[[dict, Any], str | None]:
    def broken(case: dict, answer: list) -> str | None:
        expected, found = right(case)[which], answer[which]
        if same(sort(found), sort(expected)):
            return None
        return _say(case, f"the {('table', 'blocks given back')[which]} {expected}", found)

    return broken


FALLS_OUT = Part(
    "14.1",
    "what falls out of a window",
    2,
    ("falls_out",),
    _cases,
    probes.falls_out,
    (
        Property(
            "falls_out returns two lists of block numbers",
            _shape,
            ("The table afterwards, and the blocks that were given back; both may be what they were, or empty.",),
        ),
        Property(
            "the table keeps its length",
            _length,
            ("A logical block keeps its place: the table is read by position. What is gone is 0 there.",),
        ),
        Property(
            "what no later token looks at is null, and nothing else",
            _of(0),
            (
                "The next token stands at position computed. Which is the first position that it looks at?",
                "It looks at window tokens, and is one of them itself. A block goes when all of its tokens are out.",
            ),
        ),
        Property(
            "each block that was taken out is given back, once",
            _of(1, sorted),
            ("0 is no block of this request: what is null already was given back before.",),
        ),
        Property(
            "blocks are given back from the right to the left",
            _of(1),
            ("As a finished request gives back its table: the last one first.",),
        ),
    ),
)
