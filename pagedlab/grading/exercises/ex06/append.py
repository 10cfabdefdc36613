"""Part 06.3: a slot to write to, and the copy that it may take."""

from __future__ import annotations

import random
from typing import Any

from pagedlab.grading.draws import twice
from pagedlab.grading.exercises.ex06.allocator import result_text
from pagedlab.grading.part import OfErrors, Part, Property
from pagedlab.grading.plain import same, show
from pagedlab.grading.tasks.ex06 import probes
from pagedlab.kv import cow


def _cases(rng: random.Random, seed: int) -> list[dict]:
    """Sequences that share all their blocks take turns to write. ``spare``: free blocks besides those in the tables."""
    # Always there: two that share a tail with room, two that share full blocks, and nothing left to copy or to grow to.
    cases = [
        {"block_size": 4, "num_tokens": tokens, "width": width, "turns": list(range(width)), "spare": spare}
        for tokens, width, spare in
        ((6, 2, 4), (8, 2, 4), (6, 2, 0), (8, 1, 0), (8, 2, 1), (10, 3, 4), (3, 1, 0), (6, 12, 14))
    ]
    return cases + twice(_drawn, rng, "06.3")


def _drawn(rng: random.Random) -> list[dict]:
    cases = []
    for i in range(18):
        size = (4, 2, 3, 8, 1, 4)[i % 6]
        blocks, width = 1 + i % 3, (1, 2, 3, 2)[i % 4]
        num_tokens = blocks * size if i % 5 == 4 else (blocks - 1) * size + rng.randint(1, size)
        rounds = 1 if i < 4 else rng.randint(1, size + 1)
        turns = [s for _ in range(rounds) for s in range(width)]
        spare = rng.randint(0, 1) if i % 6 == 5 else 9
        cases.append({"block_size": size, "num_tokens": num_tokens, "width": width, "turns": turns, "spare": spare})
    return cases


def _difference(case: dict, answer: dict) -> tuple[str, str] | None:
    """The first turn that went otherwise than with the reference: which promise that breaks, and the small story."""
    mine, right = answer["steps"], probes.append({"append_slot": cow.append_slot}, case)["steps"]
    needed = -(-case["num_tokens"] // case["block_size"])
    # The allocator hands out its last block first.
    total = needed + case["spare"]
    before = {
        "tables": [list(range(total - 1, total - 1 - needed, -1))] * case["width"],
        "owners": [0] * case["spare"] + [case["width"]] * needed,
        "free": list(range(case["spare"])),
    }
    for turn, (found, expected) in enumerate(zip(mine, right, strict=False)):
        if same(found, expected):
            before = expected
            continue
        s = case["turns"][turn]
        written = case["num_tokens"] + case["turns"][:turn].count(s)
        situation = (
            f"blocks of {case['block_size']}, tables {before['tables']}, owners of blocks 0, 1, …: "
            f"{before['owners']}; table {s} holds {written} tokens and gets one more: "
        )
        result = f"append_slot gave {result_text(found['result'])}; expected {result_text(expected['result'])}"
        table = f"table {s} then was {show(_of(found['tables'], s))}; expected {expected['tables'][s]}"
        owners = f"then the owners were {show(found['owners'])}; expected {expected['owners']}"
        free = f"then free were {show(found['free'])}; expected {expected['free']}"
        others = [i for i in range(case["width"]) if i != s]
        changed = [i for i in others if not same(_of(found["tables"], i), expected["tables"][i])]
        if "refused" in expected["result"]:
            kind = "refused"
        elif changed:
            rest = f"table {changed[0]} then was {show(_of(found['tables'], changed[0]))}"
            return "others", f"{situation}{rest}; expected {expected['tables'][changed[0]]}"
        elif len(expected["tables"][s]) > len(before["tables"][s]):
            kind = "new"
        elif expected["result"]["returned"] is None:
            kind = "in place"
        elif not same(found["tables"], expected["tables"]):
            kind = "copy"
        else:
            kind = "owners" if same(found["result"], expected["result"]) else "pair"
        for name, what in (("tables", table), ("result", result), ("owners", owners), ("free", free)):
            if not same(found[name], expected[name]):
                no_block = "no block is free; " if kind == "refused" else ""
                return kind, f"{situation}{no_block}{what}"
    return None if len(mine) == len(right) else ("others", f"{len(mine)} of {len(right)} turns came to an end")


def _of(tables: Any, which: int) -> Any:
    return tables[which] if type(tables) is list else tables


def _only(kind: str) -> Any:
    def broken(case: dict, answer: dict) -> str | None:
        difference = _difference(case, answer)
        if difference is None or difference[0] != kind:
            return None
        return OfErrors(difference[1]) if kind == "refused" else difference[1]

    return broken


APPEND = Part(
    "06.3",
    "append_slot copies where somebody else reads, and nowhere else",
    3,
    ("append_slot",),
    _cases,
    probes.append,
    (
        Property(
            "nobody else's table changes",
            _only("others"),
            ("Only the table of the one that writes is put right. The others read on where they did.",),
        ),
        Property(
            "where all blocks are full, a new block is appended, and None returned",
            _only("new"),
            (
                "num_tokens counts the new token too. How many does the table have room for?",
                "Full blocks are never written again, so it does not matter who shares them. Nothing is copied.",
                "Compare num_tokens with the whole table's room. A remainder misleads where a block holds one token.",
            ),
        ),
        Property(
            "where the last block has room and one owner, nothing changes and None is returned",
            _only("in place"),
            (
                "Who has the block alone writes in place. Whoever is left as the last owner copies nothing.",
                "The table does not grow either: num_tokens counts the new token, and there is room for so many.",
            ),
        ),
        Property(
            "where the last block is shared, the table gets a new one in its place",
            _only("copy"),
            (
                "Somebody else reads that block. Where else can this sequence write?",
                "A block from the allocator takes the last entry of the table. The table does not grow.",
                "It is the caller's list that has to change: table[-1] = … changes it, table = … makes another one.",
            ),
        ),
        Property(
            "a copy is told as the pair (source, destination)",
            _only("pair"),
            ("Physical block numbers (block_id): first the one that is read, then the new one.",),
        ),
        Property(
            "the shared block has one owner less after that",
            _only("owners"),
            ("The writer does not hold it any more, and has to give it back.", "The allocator has a method for that."),
        ),
        Property(
            "where no block is free, the allocator's ValueError gets out and nothing has changed",
            _only("refused"),
            (
                "In which order do you take and give back? Take first: if that fails, nothing has been lost yet.",
                "Do not catch the error. Whoever calls append_slot has to hear that there was no block.",
            ),
        ),
    ),
)
