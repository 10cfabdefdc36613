"""Part 05.1: one query, block after block."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from pagedlab.grading.draws import twice
from pagedlab.grading.exercises.ex05.attention import close, expected, own_result, some
from pagedlab.grading.part import Part, Property
from pagedlab.grading.plain import raised, same, show
from pagedlab.grading.tasks.ex05 import probes
from pagedlab.grading.tasks.ex05.memory import build


def _cases(rng: random.Random, seed: int) -> list[dict]:
    return [*twice(_drawn, rng, "05.1"), *_always()]


def _always() -> list[dict]:
    """Scores below zero that rise; scores so far below zero that e^score is 0; a scale of more than 1; many blocks."""
    changes = (
        {"kind": "rising", "trend": -1, "loud": -1.0},
        {"kind": "deep", "trend": 1, "loud": -30_000.0},
        {"scale": 2.0},
        {"lengths": [300], "block_size": 16, "head_size": 64},
    )
    rng = random.Random("05.1 always")
    return [_case(rng, "any", 0) | change for change in changes]


def _drawn(rng: random.Random) -> list[dict]:
    # The smallest first, and of each kind some: "first" is one token, "block" one full block, "tail" one in part.
    kinds = [("first", 2), ("block", 3), ("tail", 3), ("falling", 3), ("rising", 4), ("any", 5), ("loud", 3)]
    return [_case(rng, kind, i) for kind, count in kinds for i in range(count)]


def _case(rng: random.Random, kind: str, i: int) -> dict:
    size, blocks = (4, 2, 8, 3)[i % 4], rng.randint(2, 5)
    one_block = {"first": 1, "block": size, "tail": rng.randint(1, size - 1)}
    width = rng.choice((8, 16))
    return {
        "kind": kind,
        "seed": rng.randrange(1 << 30),
        "lengths": [one_block.get(kind, size * blocks - rng.randrange(size))],
        "queries": [1],
        "block_size": size,
        "kv_heads": 1,
        "group": 1,
        "head_size": width,
        "loud": 300.0 if kind == "loud" else 1.0,
        "trend": {"rising": 1, "falling": -1}.get(kind, 0),
        "layout": "NHD",
        "spare": i % 3,  # entries of the table behind the last block
        "scale": width**-0.5 if i % 2 == 0 else 0.5,
    }


def _words(case: dict) -> str:
    tokens, table = case["lengths"][0], build(case).tables[0]
    return f"{tokens} tokens in blocks of {case['block_size']}, table {table}, scale {case['scale']:.3f}"


def _shape(case: dict, answer: dict) -> str | None:
    result, right = answer["result"], [case["head_size"]]
    if raised(result):
        return f"for {_words(case)} it gave {show(result)}"
    return None if result[0] == right else f"it gave a tensor of shape {result[0]}; expected {right}"


def _kept(case: dict, answer: dict) -> str | None:
    return None if answer["kept"] is True else f"for {_words(case)} it changed the query, the table, or what it read"


def _read(wrong: Callable[[list[int], list[int]], bool]) -> Any:
    def broken(case: dict, answer: dict) -> str | None:
        table, read = build(case).tables[0], answer["read"]
        return f"for {_words(case)} it read the blocks {read}; expected {table}" if wrong(read, table) else None

    return broken


def _right(kind: str) -> Any:
    def broken(case: dict, answer: dict) -> str | None:
        if case["kind"] != kind:
            return None
        found, right = answer["result"][1], expected(case, build(case), case["scale"])
        if close(found, right):
            return None
        return f"for {_words(case)} the result begins with {some(found)}; expected {some(right.flatten().tolist())}"

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
            _read(lambda read, table: not same(read, table)),
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
                "score = (q · k) * scale, weight = e^score over the sum of all of them. scale is given.",
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
            ("Here the first block has the largest score. The sum and the weighted sum grow with every block.",),
        ),
        Property(
            "what was added up before is shrunk when a block brings a new largest score",
            _right("rising"),
            (
                "Here each block has a larger score than the one before. What was the sum so far measured from?",
                "The factor is e^(old largest − new largest). Two things have to be multiplied with it.",
            ),
        ),
        Property(
            "some blocks bring a new largest score, and some do not",
            _right("any"),
            ("The largest score never falls. Where it stays, the factor is 1.",),
        ),
        Property(
            "large scores do not overflow",
            _right("loud"),
            ("e^100 is too much for float32. Compute e^(score − largest), which is 1 at most.",),
        ),
        Property(
            "scores far below zero do not vanish",
            _right("deep"),
            ("e^-100 is nearly 0, and 0 / 0 is NaN. Is the largest score that you begin with one of the scores?",),
        ),
        Property("query and table stay as they were", _kept, ("Read from them only.",)),
        Property(
            "each call returns a tensor of its own",
            own_result(_words),
            ("Whoever has the first result still needs it when the second comes. Make new tensors in each call.",),
        ),
    ),
)
