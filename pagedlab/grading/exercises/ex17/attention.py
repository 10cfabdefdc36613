"""Part 17.3: attention that gives a query the same bits in one call and in chunks."""

from __future__ import annotations

import random
from typing import Any

import torch

from pagedlab.grading.draws import twice
from pagedlab.grading.exercises.ex17.bits import far, other_bits, shape_broken
from pagedlab.grading.part import Part, Property
from pagedlab.grading.plain import raised, show
from pagedlab.grading.tasks.ex17 import probes
from pagedlab.grading.tasks.ex17.numbers import build


def _cases(rng: random.Random, seed: int) -> list[dict]:
    fixed = random.Random("17.3 always")
    lengths = (1, 2, 5, 31, 32, 33, 47, 64, 65, 100)
    return [*(_case(fixed, length) for length in lengths), _case(fixed, 40, loud=60.0), *twice(_drawn, rng, "17.3")]


def _drawn(rng: random.Random) -> list[dict]:
    return [_case(rng, rng.randint(3, 20)), *(_case(rng, rng.randint(33, 90)) for _ in range(3))]


def _case(rng: random.Random, length: int, loud: float = 2.0) -> dict:
    size = rng.choice((8, 16))
    one_by_one = list(range(1, length + 1))
    some = sorted({*rng.sample(one_by_one, min(length, rng.randint(1, 3))), length})
    cuts = [[length - 1, length] if length > 1 else [1], one_by_one, some]
    shapes = {name: [length, size] for name in ("query", "key", "value")}
    return {"shapes": shapes, "seed": rng.randrange(1 << 30), "cuts": cuts, "loud": loud}


def expected(case: dict) -> torch.Tensor:
    """[length, head size], in float64 with all scores at hand."""
    given = {name: t.double() for name, t in build(case).items()}
    scores = given["query"] @ given["key"].T * case["shapes"]["query"][1] ** -0.5
    later = torch.ones(scores.shape, dtype=torch.bool).triu(1)
    return torch.softmax(scores.masked_fill(later, -torch.inf), -1) @ given["value"]


def _words(case: dict) -> str:
    length, size = case["shapes"]["query"]
    return f"a prompt of {length} tokens, head size {size}"


def _shape(case: dict, answer: Any) -> str | None:
    return shape_broken(answer["whole"], case["shapes"]["query"], _words(case))


def _right(case: dict, answer: Any) -> str | None:
    wrong = far(answer["whole"], expected(case))
    return wrong and f"for {_words(case)}: {wrong}"


def _chunks(case: dict, answer: Any) -> str | None:
    for ends, result in zip(case["cuts"], answer["cuts"], strict=True):
        if raised(result) or result[0] != answer["whole"][0]:
            return f"for {_words(case)}, in chunks that end at {show(ends, 40)}, it gave {show(result)}"
        if wrong := far(result, expected(case)):
            return f"for {_words(case)}, in chunks that end at {show(ends, 40)}: {wrong}"
    return None


def _bits(which: int) -> Any:
    def broken(case: dict, answer: Any) -> str | None:
        ends = case["cuts"][which]
        wrong = other_bits(answer["whole"], answer["cuts"][which])
        return wrong and f"for {_words(case)}, in chunks that end at {show(ends, 40)} instead of at once: {wrong}"

    return broken


def _kept(case: dict, answer: Any) -> str | None:
    return None if answer["kept"] else f"for {_words(case)} it changed query, key or value"


ATTENTION = Part(
    "17.3",
    "attention with the same bits in any chunks",
    4,
    ("attend",),
    _cases,
    probes.attention,
    (
        Property(
            "attend returns a float32 tensor like query",
            _shape,
            ("One row for each query, and as many numbers in it as value has columns.",),
        ),
        Property(
            "a prompt's query sees itself and what stands before it, nothing behind it",
            _right,
            (
                "Softmax of query · key / √(head size), over the keys up to the query's own position.",
                "Subtract the largest score before exp: scores may be large.",
            ),
        ),
        Property(
            "the queries of a chunk are the last ones of the context",
            _chunks,
            ("With 10 keys and 3 queries, these stand at positions 7, 8 and 9.",),
        ),
        Property(
            "a prompt gets the same bits where its last token has a step of its own",
            _bits(0),
            (
                "Alone it sees the same keys. Which of your sums got another length?",
                "Cut every sum over keys at the same positions, always: 32, 64, 96 …, counted from the first key.",
                "A last split that is not full is another sum. Fill it up with keys that have no weight.",
            ),
        ),
        Property(
            "each query gets the same bits, token by token",
            _bits(1),
            ("A query at position 5 has one split with 6 keys in it. In a whole prompt the same split has more.",),
        ),
        Property(
            "each query gets the same bits in chunks of any sizes",
            _bits(2),
            ("Where a chunk begins must not move the splits: they are counted from the first key.",),
        ),
        Property("what it is given stays as it was", _kept, ("Fill up new tensors, not the caller's.",)),
    ),
)
