"""Part 05.1: one query, block after block."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from pagedlab.grading.exercises.ex05.attention import close, expected, some
from pagedlab.grading.part import Part, Property
from pagedlab.grading.plain import raised, show
from pagedlab.grading.tasks.ex05 import probes
from pagedlab.grading.tasks.ex05.memory import build


def _cases(rng: random.Random, seed: int) -> list[dict]:
    # The smallest first, and of each kind some: "first" is one token, "block" one full block, "tail" one in part.
    kinds = [("first", 3), ("block", 3), ("tail", 4), ("falling", 4), ("rising", 6), ("any", 8), ("loud", 5)]
    return [_case(rng, kind) for kind, count in kinds for _ in range(count)]


def _case(rng: random.Random, kind: str) -> dict:
    size, blocks = rng.choice((4, 2, 8)), rng.randint(2, 5)
    one_block = {"first": 1, "block": size, "tail": rng.randint(1, size - 1)}
    length = one_block.get(kind, size * blocks - rng.randrange(size))
    return {
        "kind": kind,
        "seed": rng.randrange(1 << 30),
        "lengths": [length],
        "queries": [1],
        "block_size": size,
        "kv_heads": 1,
        "group": 1,
        "head_size": rng.choice((8, 16)),
        "loud": 300.0 if kind == "loud" else 1.0,
        "rising": kind == "rising",
        "layout": "NHD",
        "spare": rng.randint(0, 2),  # entries of the table behind the last block
    }


def _told(case: dict) -> str:
    return f"{case['lengths'][0]} tokens in blocks of {case['block_size']}, table {build(case).tables[0]}"


def _shape(case: dict, answer: dict) -> str | None:
    result = answer["result"]
    if raised(result):
        return f"for {_told(case)} it gave {show(result)}"
    right = [case["head_size"]]
    return None if result[0] == right else f"for a query of {right} numbers it gave a tensor of shape {result[0]}"


def _read(wrong: Callable[[list[int], list[int]], bool]) -> Any:
    def broken(case: dict, answer: dict) -> str | None:
        table = build(case).tables[0]
        return f"for {_told(case)} these blocks were read: {answer['read']}" if wrong(answer["read"], table) else None

    return broken


def _right(*kinds: str) -> Any:
    def broken(case: dict, answer: dict) -> str | None:
        found = answer["result"][1]
        if case["kind"] not in kinds or close(found, expected(case, build(case), case["head_size"] ** -0.5)):
            return None
        return f"for {_told(case)} the result begins with {some(found)}, and that is not attention"

    return broken


WALK = Part(
    "05.1",
    "attend reads every block once, and the result is attention",
    4,
    ("attend",),
    _cases,
    probes.one_query,
    (
        Property(
            "attend returns a tensor of head size numbers",
            _shape,
            ("One weighted mean of values: as many numbers as one value has.",),
        ),
        Property(
            "blocks are read by their physical number, in the table's order",
            _read(lambda read, table: list(dict.fromkeys(read))[: len(table)] != table),
            (
                "read_block wants the number that stands in the table, not the place where it stands.",
                "for block in table: …",
            ),
        ),
        Property(
            "no block is read behind the last token's",
            _read(lambda read, table: len(set(read)) > len(table)),
            ("The table may be longer than the context. How many blocks do length tokens need?",),
        ),
        Property(
            "every block is read once",
            _read(lambda read, table: len(read) > len(table)),
            (
                "A second pass over memory costs as much as the first. What must you know when the next block comes?",
                "Keep three things: largest score, sum, weighted sum of values.",
            ),
        ),
        Property(
            "one token alone gets the whole weight",
            _right("first"),
            ("With one score, its weight is 1, whatever the score. Places behind it may hold anything, NaN too.",),
        ),
        Property(
            "in one full block the weights are the softmax of the scaled scores",
            _right("block"),
            (
                "score = (q · k) * scale, weight = e^score over the sum of all of them.",
                "Divide by the sum at the end, and only once.",
            ),
        ),
        Property(
            "places behind the last token count for nothing",
            _right("tail"),
            (
                "In the last block, length decides how many places are real. NaN times 0 is still NaN.",
                "Cut key and value off before you compute with them.",
            ),
        ),
        Property(
            "what was added up before counts on when a block brings no new largest score",
            _right("falling"),
            ("The sum and the weighted sum grow with every block. The largest score stays.",),
        ),
        Property(
            "what was added up before is shrunk when a block brings a new largest score",
            _right("rising", "any"),
            (
                "Everything before was measured from the old largest score. One factor puts it right.",
                "The factor is e^(old largest − new largest). Two things have to be multiplied with it.",
            ),
        ),
        Property(
            "large scores do not overflow",
            _right("loud"),
            ("e^100 is too much for float32. Compute e^(score − largest), which is 1 at most.",),
        ),
    ),
    answered_by=("walk",),
)
