"""Part 02.1: from a position to its place, and back."""

from __future__ import annotations

import random
from typing import Any

from pagedlab.grading.draws import twice
from pagedlab.grading.part import Part, Property
from pagedlab.grading.plain import is_ints, same, show
from pagedlab.grading.tasks.ex02 import probes
from pagedlab.kv import BlockTable

BLOCK_SIZES = (4, 2, 16, 3, 8, 1)


def _cases(rng: random.Random, seed: int) -> list[dict]:
    # Always there: tables of several lengths, one of them empty, in no order; blocks that count like logical ones; and
    # every place of a block.
    tables = {"B": [2, 0, 7], "D": [], "A": [5, 1]}
    small = {"block_size": 4, "tables": tables, "of": "B", "positions": list(range(12))}
    small["places"] = [[5, 3], [2, 0], [0, 2], [7, 3], [1, 0], [3, 1], [4, 0]]
    nobody = {"block_size": 2, "tables": {}, "of": None, "positions": [], "places": [[1, 0]]}
    # As large as they really are: many blocks, high numbers, and a size that is no power of two.
    long = [7919 * i for i in range(1, 31)]
    large = {"block_size": 48, "tables": {"A": [300, 65_600], "B": long}, "of": "B"}
    large["positions"] = [0, 47, 48, 1000, 30 * 48 - 1]
    large["places"] = [[300, 9], [65_600, 47], [long[-1], 30], [44, 0], [64, 0]]
    many = {"block_size": 4, "tables": {f"req-{i}": [2 * i + 1, 2 * i] for i in range(12)}, "of": "req-11"}
    many |= {"positions": [0, 7], "places": [[block, block % 4] for block in range(25)]}
    return [small, nobody, *twice(_drawn, rng, "02.1"), large, many]


def _drawn(rng: random.Random) -> list[dict]:
    cases = []
    for i in range(18):
        size, count = BLOCK_SIZES[i % len(BLOCK_SIZES)], 1 + i // 6
        names = rng.sample(["A", "B", "C", "Z", "req-7"], 3)
        lengths = rng.sample([count, count + 1, count + 2], 3)
        blocks = rng.sample(range(60), sum(lengths) + 1)
        tables = {name: [blocks.pop() for _ in range(length)] for name, length in zip(names, lengths, strict=True)}
        owner = rng.choice(names)
        room = range(len(tables[owner]) * size)
        # Of each table the first place and any one; and a block that stands in none.
        places = [[tables[name][0], size - 1] for name in names]
        places += [[rng.choice(tables[name]), rng.randrange(size)] for name in names]
        cases.append(
            {
                "block_size": size,
                "tables": tables,
                "of": owner,
                "positions": list(room) if len(room) <= 24 else sorted(rng.sample(room, 16)),
                "places": [*places, [blocks.pop(), 0]],
            }
        )
    return cases


def _owner(case: dict, block: int, offset: int) -> list | None:
    for name, table in case["tables"].items():
        if block in table:
            return [name, table.index(block) * case["block_size"] + offset]
    return None


def _there(wrong: Any, expected: Any = lambda right: right) -> Any:
    """The first call of ``translate`` whose result is ``wrong`` beside the right one."""

    def broken(case: dict, answer: dict) -> str | None:
        table = case["tables"].get(case["of"])
        for position, found in zip(case["positions"], answer["there"], strict=True):
            right = BlockTable(case["block_size"], table).locate(position)
            if wrong(found, right):
                call = f"translate({table}, {case['block_size']}, {position})"
                return f"{call} gave {_pair(found)}; expected {expected(right)}"
        return None

    return broken


def _back(wrong: Any, expected: Any) -> Any:
    """The same of ``whose``."""

    def broken(case: dict, answer: dict) -> str | None:
        for (block, offset), found in zip(case["places"], answer["back"], strict=True):
            right = _owner(case, block, offset)
            if wrong(found, right):
                call = f"whose({case['tables']}, {case['block_size']}, {block}, {offset})"
                return f"{call} gave {_pair(found)}; expected {expected(right)}"
        return None

    return broken


def _kept(case: dict, answer: dict) -> str | None:
    if same(answer["tables"], case["tables"]):
        return None
    return f"the tables were {case['tables']}, and then {show(answer['tables'])}"


def _no_pair(found: Any, right: list | None) -> bool:
    return found is not None and not (type(found) is list and len(found) == 2)


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
            _there(lambda found, _: not is_ints(found) or len(found) != 2, lambda _: "a pair of whole numbers"),
            ("translate returns (physical block number, physical block offset).",),
        ),
        Property(
            "the offset says how far behind its block's first token the position lies",
            _there(lambda found, right: found[1] != right[1], lambda right: f"the offset {right[1]}"),
            (
                "How many tokens of the request lie in the same block, before this one?",
                "divmod(position, block_size) gives two numbers. Which of them starts again at 0 in every block?",
            ),
        ),
        Property(
            "the block is a physical one: what the table says of the logical block",
            _there(lambda found, right: found[0] != right[0], lambda right: f"the block {right[0]}"),
            (
                "The page number is not the frame number. Who knows which frame a page is in?",
                "The table is a list, and its index is the logical block.",
            ),
        ),
        Property(
            "whose returns a pair (request, position), or None",
            _back(_no_pair, lambda right: "a pair (request, position)" if right else "None"),
            ('For example ("B", 5), with the name as it stands in tables.',),
        ),
        Property(
            "a place in a block that stands in no table is nobody's",
            _back(lambda found, right: right is None and found is not None, lambda _: "None"),
            ("Blocks in the free queue stand in no table. Then whose returns None.",),
        ),
        Property(
            "whose names the request whose table holds the block",
            _back(
                lambda found, right: right is not None and (found is None or not same(found[0], right[0])),
                lambda right: f"the request {right[0]!r}",
            ),
            (
                "Look through all tables. In which one does the block's number stand?",
                "Go through tables.items(): a name and a list of physical blocks each.",
            ),
        ),
        Property(
            "whose gives the position in that request's text",
            _back(
                lambda found, right: right is not None and not same(found[1], right[1]),
                lambda right: f"the position {right[1]}",
            ),
            (
                "Where in the table the block stands says how many blocks of the text come before it.",
                "Every block before it is full. Then add what lies before the place inside its own block.",
            ),
        ),
        Property("the tables stay as they were", _kept, ("Read from them only.",)),
    ),
)
