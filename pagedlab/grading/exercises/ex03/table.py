"""Part 03.1: BlockTable."""

from __future__ import annotations

import random
from typing import Any

from pagedlab.grading.draws import twice
from pagedlab.grading.part import OfErrors, Part, Property
from pagedlab.grading.plain import is_ints, same, show
from pagedlab.grading.tasks.ex03 import probes
from pagedlab.kv import BlockTable

BLOCK_SIZES = (4, 2, 3, 8, 1, 16, 5)


def _table_cases(rng: random.Random, seed: int) -> list[dict]:
    # Always there: one block; nothing appended, and then something; three times one; one block in two places.
    appends = ([[7]], [[], [9, 4]], [[3], [8], [5]], [[0], [0, 7]])
    cases = [
        {"block_size": 4, "appends": lists, "inside": list(range(4 * count)), "outside": [4 * count, -1, -4 * count]}
        for lists in appends
        for count in [sum(map(len, lists))]
    ]
    long = [7919 * i for i in range(1, 71)]  # high numbers, and more than a few
    large = {"block_size": 48, "appends": [long[:69], long[69:]], "inside": [0, 48, 1000, 3359], "outside": [3360]}
    return [*cases, *twice(_drawn, rng, "03.1"), large]


def _drawn(rng: random.Random) -> list[dict]:
    cases = []
    for i in range(21):
        size, num_blocks = BLOCK_SIZES[i % len(BLOCK_SIZES)], 2 + i // 5
        block_ids = rng.sample(range(60), num_blocks)
        cut = rng.randint(1, num_blocks - 1)
        room = num_blocks * size
        inside = range(room) if room <= 24 else sorted({0, size - 1, size, room - 1, *rng.sample(range(room), 16)})
        cases.append(
            {
                "block_size": size,
                "appends": [block_ids[:cut], block_ids[cut:]],
                "inside": list(inside)[:: -1 if i % 2 else 1],
                "outside": [room, room + rng.randint(1, 2 * size), -1, -rng.randint(1, room)],
            }
        )
    return cases


def _reference_table(case: dict) -> BlockTable:
    return BlockTable(case["block_size"], [block for block_ids in case["appends"] for block in block_ids])


def _setting(case: dict) -> str:
    return f"block size {case['block_size']}, blocks {_reference_table(case).block_ids}"


def _made(case: dict, answer: dict) -> str | None:
    return answer["made"] and f"BlockTable({case['block_size']}) gave {answer['made']}"


def _new_is_empty(case: dict, answer: dict) -> str | None:
    for length, when in zip(
        answer["new"], ("when it is made", "after blocks were appended to another table"), strict=True
    ):
        if not same(length, 0):
            return f"len() of a table without blocks gave {show(length)} {when}; expected 0"
    return None


def _append_extends(case: dict, answer: dict) -> str | None:
    count = 0
    for block_ids, length in zip(case["appends"], answer["lengths"], strict=True):
        held, count = count, count + len(block_ids)
        if not same(length, count):
            blocks = "1 block" if held == 1 else f"{held} blocks"
            return f"a table of {blocks}, then append({block_ids}): len(table) gave {show(length)}; expected {count}"
    return None


def _readable(case: dict, answer: dict) -> str | None:
    right = _reference_table(case).block_ids
    if answer["block_ids"] is None or same(answer["block_ids"], right):  # a table may go without
        return None
    return f"{_setting(case)}: block_ids is {show(answer['block_ids'])}; expected {right}"


def _callers_lists(case: dict, answer: dict) -> str | None:
    if same(answer["lists"], case["appends"]):
        return None
    return f"append was given the lists {case['appends']}, and then they were {show(answer['lists'])}"


def _own_list(case: dict, answer: dict) -> str | None:
    if same(answer["kept"], [2, [5, 0]]):
        return None
    length, place = map(show, answer["kept"])
    return (
        "append([5, 7]), then the caller put other numbers into its list: the table's length is "
        f"{length} and locate(0) gives {place}; expected 2 and [5, 0]"
    )


def _located(wrong: Any, expected: Any) -> Any:
    """Look at (position, answer, reference answer) of every inside position, and tell of the first wrong one."""

    def broken(case: dict, answer: dict) -> str | None:
        table = _reference_table(case)
        for position, found in zip(case["inside"], answer["inside"], strict=True):
            right = table.locate(position)
            if wrong(found, right):
                gave = f"({found[0]}, {found[1]})" if is_ints(found) and len(found) == 2 else show(found)
                return f"{_setting(case)}: locate({position}) gave {gave}; expected {expected(right)}"
        return None

    return broken


def _refuses(case: dict, answer: dict) -> str | None:
    for position, outcome in zip(case["outside"], answer["outside"], strict=True):
        if "refused" not in outcome:
            gave = show(outcome["returned"])
            return OfErrors(f"{_setting(case)}: locate({position}) gave {gave}; expected an IndexError")
    return None


TABLE = Part(
    "03.1",
    "BlockTable finds every position",
    3,
    ("BlockTable",),
    _table_cases,
    probes.table,
    (
        Property(
            "a table is made with BlockTable(block_size)",
            _made,
            ("Look at __init__: it takes the block size and nothing else.",),
        ),
        Property(
            "a new table is empty, whatever other tables hold",
            _new_is_empty,
            (
                "len(table) counts blocks. Do your tables all write into one list?",
                "A list in the class body, or as a default argument, is made once and shared. Make it in __init__.",
            ),
        ),
        Property(
            "append puts all blocks of the list behind those that are there",
            _append_extends,
            (
                "len(table) is the number of blocks (not of tokens), over all appends.",
                "list.append adds one thing, list.extend adds all things of a list; = replaces what was there.",
            ),
        ),
        Property(
            "locate returns two plain ints",
            _located(lambda found, _: not is_ints(found) or len(found) != 2, lambda _: "two whole numbers"),
            ("locate returns (physical block, offset).",),
        ),
        Property(
            "offsets run from 0 to block_size - 1 and start again in every block",
            _located(lambda found, right: found[1] != right[1], lambda right: f"the offset {right[1]}"),
            (
                "The offset comes second. Write positions 0 to 9, with a line after every block: what is below each?",
                "Compare position 1 with those that are block_size, and twice that, further on. What is the same?",
            ),
        ),
        Property(
            "the block is the physical one, in which the position's logical block lies",
            _located(lambda found, right: found[0] != right[0], lambda right: f"the block {right[0]}"),
            (
                "Two steps: which logical block is it, and what does the table say about that one?",
                "Count the whole blocks before the position: that numbers a logical block, not a physical one.",
            ),
        ),
        Property(
            "a table keeps its own list of blocks",
            _own_list,
            ("append was given somebody else's list. Copy what is in it.",),
        ),
        Property(
            "the lists that append is given stay as they were",
            _callers_lists,
            ("The caller still needs its list. Read from it only.",),
        ),
        Property(
            "block_ids lists the physical blocks",
            _readable,
            ("The engine reads them there, under this name.", "Keep what __init__ makes, and fill that."),
        ),
        Property(
            "a position outside the table raises IndexError",
            _refuses,
            (
                "2 blocks of 4 have positions 0 to 7. Everything else, below 0 too, is an IndexError and no other one.",
                "Python reads block_ids[-1] as the last block and says nothing. You have to look before.",
            ),
        ),
    ),
)
