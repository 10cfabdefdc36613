"""Part 17.2: a product that gives a row the same bits in every batch."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from pagedlab.grading.draws import twice
from pagedlab.grading.exercises.ex17.bits import far, other_bits, shape_broken
from pagedlab.grading.part import Part, Property
from pagedlab.grading.tasks.ex17 import probes
from pagedlab.grading.tasks.ex17.numbers import build

ROWS_A_CALL = 16


def _cases(rng: random.Random, seed: int) -> list[dict]:
    fixed = random.Random("17.2 always")
    always = [_case(fixed, rows) for rows in (1, 2, 3, 15, 16, 17, 31, 32, 33, 48, 70)]
    return [*always, *twice(_drawn, rng, "17.2")]


def _drawn(rng: random.Random) -> list[dict]:
    return [_case(rng, rng.randint(2, 12)), *(_case(rng, rng.randint(17, 60)) for _ in range(4))]


def _case(rng: random.Random, rows: int) -> dict:
    n, m = rng.randint(20, 48), rng.randint(2, 5)
    order = list(range(rows))
    rng.shuffle(order)
    sizes = [size for size in (1, 2, 7, 16, rng.randint(3, 20)) if size < rows]
    shapes = {"x": [rows, n], "weight": [m, n]}
    return {"shapes": shapes, "seed": rng.randrange(1 << 30), "sizes": sizes, "order": order}


def _words(case: dict) -> str:
    (rows, n), (m, _) = case["shapes"]["x"], case["shapes"]["weight"]
    return f"x of {rows} rows of {n} numbers and weight of {m} rows"


def _shape(case: dict, answer: Any) -> str | None:
    return shape_broken(answer["whole"], [case["shapes"]["x"][0], case["shapes"]["weight"][0]], _words(case))


def _right(case: dict, answer: Any) -> str | None:
    given = build(case)
    wrong = far(answer["whole"], given["x"].double() @ given["weight"].double().T)
    return wrong and f"for {_words(case)}: {wrong}"


def _sizes(case: dict, answer: Any) -> str | None:
    for size, part in zip(case["sizes"], answer["parts"], strict=True):
        if wrong := other_bits(answer["whole"], part):
            return f"for {_words(case)}, given {size} at a time instead of all at once: {wrong}"
    return None


def _places(case: dict, answer: Any) -> str | None:
    columns = case["shapes"]["weight"][0]
    shape, dtype, flat = answer["whole"]
    moved = [x for row in case["order"] for x in flat[row * columns : (row + 1) * columns]]
    wrong = other_bits([shape, dtype, moved], answer["mixed"])
    return wrong and f"for {_words(case)}, their order changed: {wrong}"


def _calls(case: dict, answer: Any) -> str | None:
    for rows, calls in answer["calls"]:
        most = -(-rows // ROWS_A_CALL)
        if calls > most:
            return f"for {rows} rows the library was called {calls} times; allowed is once for every 16 begun: {most}"
    return None


def _kept(of: str) -> Callable[[dict, Any], str | None]:
    def broken(case: dict, answer: Any) -> str | None:
        good = answer["kept"] if of == "given" else answer["later"] == answer["whole"]
        what = "x or weight was changed" if of == "given" else "the first result was changed by a later call"
        return None if good else f"for {_words(case)}: {what}"

    return broken


PRODUCT = Part(
    "17.2",
    "a product with the same bits in every batch",
    4,
    ("product",),
    _cases,
    probes.product,
    (
        Property(
            "product returns a float32 tensor with a row for each row of x",
            _shape,
            ("What fills a tile up has to be cut off again: x of 17 rows gives 17 rows.",),
        ),
        Property(
            "the result is x · weightᵀ",
            _right,
            ("library(x, weight) is right already. Is each tile put back in its place?",),
        ),
        Property(
            "each call returns a tensor of its own",
            _kept("result"),
            ("Whoever has the first result still needs it when the second comes.",),
        ),
        Property(
            "a row gets the same bits, however many rows come with it",
            _sizes,
            (
                "The library cuts its sums by the number of rows. So which numbers of rows may it ever see?",
                "One number only. A last tile that is not full is the one to look at.",
            ),
        ),
        Property(
            "a row gets the same bits at any place",
            _places,
            ("Rows in another order are the same rows. Each has its own result.",),
        ),
        Property(
            "the library is called at most once for every 16 rows begun",
            _calls,
            ("Row by row has equal bits, too, and is as slow as a loop. Give it 16 rows at a time.",),
        ),
        Property(
            "what it is given stays as it was",
            _kept("given"),
            ("Fill up a new tensor, not the caller's.",),
        ),
    ),
)
