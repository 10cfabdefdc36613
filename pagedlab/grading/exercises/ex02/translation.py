"""Part 02.1: from a position to its place, and back."""

from __future__ import annotations

import random
from typing import Any

from pagedlab.grading.part import Part, Property
from pagedlab.grading.plain import is_int, is_ints, show
from pagedlab.grading.tasks.ex02 import probes
from pagedlab.kv import BlockTable

BLOCK_SIZES = (4, 2, 16, 3, 8, 1)


def _cases(rng: random.Random, seed: int) -> list[dict]:
    cases = []
    for i in range(24):
        size, count = BLOCK_SIZES[i % len(BLOCK_SIZES)], 2 + i // 8
        blocks = rng.sample(range(1, 50), 3 * count + 1)
        tables = {"A": blocks[:count], "B": blocks[count : 2 * count], "C": blocks[2 * count : 3 * count]}
        room = range(count * size)
        places = [(rng.choice(tables[name]), rng.randrange(size)) for name in "ABC"] + [(blocks[-1], 0)]
        # The first entry of B: a block that is not whole tables away from being found by counting.
        places.insert(0, (tables["B"][0], size - 1))
        cases.append(
            {
                "block_size": size,
                "tables": tables,
                "positions": list(room) if len(room) <= 24 else sorted(rng.sample(room, 16)),
                "places": [list(place) for place in places],
            }
        )
    return cases


def _owner(case: dict, block: int, offset: int) -> list | None:
    for name, table in case["tables"].items():
        if block in table:
            return [name, table.index(block) * case["block_size"] + offset]
    return None


def _there(wrong: Any) -> Any:
    def broken(case: dict, answer: dict) -> str | None:
        table = case["tables"]["A"]
        for position, found in zip(case["positions"], answer["there"], strict=True):
            if wrong(found, BlockTable(case["block_size"], table).locate(position)):
                return f"translate({table}, {case['block_size']}, {position}) gave {_pair(found)}"
        return None

    return broken


def _back(wrong: Any) -> Any:
    def broken(case: dict, answer: dict) -> str | None:
        for (block, offset), found in zip(case["places"], answer["back"], strict=True):
            if wrong(found, _owner(case, block, offset)):
                return f"whose({case['tables']}, {case['block_size']}, {block}, {offset}) gave {_pair(found)}"
        return None

    return broken


def _pair(found: Any) -> str:
    return f"({found[0]!r}, {found[1]!r})" if type(found) is list and len(found) == 2 else show(found)


TRANSLATION = Part(
    "02.1",
    "from a position to its place, and back",
    2,
    ("translate", "whose"),
    _cases,
    probes.translation,
    (
        Property(
            "translate returns two plain ints",
            _there(lambda found, _: not is_ints(found) or len(found) != 2),
            ("translate returns (physical block number, physical block offset).",),
        ),
        Property(
            "the offset says how far behind its block's first token the position lies",
            _there(lambda found, right: found[1] != right[1]),
            (
                "How many tokens of the request lie in the same block, before this one?",
                "divmod(position, block_size) gives two numbers. Which of them starts again at 0 in every block?",
            ),
        ),
        Property(
            "the block is a physical one: what the table says of the logical block",
            _there(lambda found, right: found[0] != right[0]),
            (
                "The page number is not the frame number. Who knows which frame a page is in?",
                "The table is a list, and its index is the logical block.",
            ),
        ),
        Property(
            "whose returns a pair (request, position), or None",
            _back(lambda found, _: found is not None and not (type(found) is list and len(found) == 2)),
            ('For example ("B", 5), with the name as it stands in tables.',),
        ),
        Property(
            "a place in a block that stands in no table is nobody's",
            _back(lambda found, right: right is None and found is not None),
            ("Blocks in the free queue stand in no table. Then whose returns None.",),
        ),
        Property(
            "whose names the request whose table holds the block",
            _back(lambda found, right: right is not None and (found is None or found[0] != right[0])),
            (
                "Look through all tables. In which one does the block's number stand?",
                "Go through tables.items(): a name and a list of physical blocks each.",
            ),
        ),
        Property(
            "whose gives the position in that request's text",
            _back(lambda found, right: right is not None and not (is_int(found[1]) and found[1] == right[1])),
            (
                "Where in the table the block stands says how many blocks of the text come before it.",
                "Every block before it is full. Then add what lies before the place inside its own block.",
            ),
        ),
    ),
    answered_by=("BlockTable",),
)
