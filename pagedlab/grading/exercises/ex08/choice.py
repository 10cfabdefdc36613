"""Part 08.2: at which block sizes swapping takes less time."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import Any

from pagedlab.grading.part import Part, Property
from pagedlab.grading.plain import is_ints, show
from pagedlab.grading.tasks.ex08 import probes

SIZES = [1, 2, 4, 8, 16, 32, 64, 128, 256]
MARGIN = Fraction(1, 30)  # cases in which both take about the same time say nothing about a formula


def swap_seconds(n: int, size: int, m: dict) -> Fraction:
    blocks = -(-n // size)
    moved = Fraction(blocks * size * m["bytes_per_token"]) / Fraction(m["bytes_per_second"])
    return 2 * (blocks * Fraction(m["seconds_per_block"]) + moved)


def recompute_seconds(n: int, m: dict) -> Fraction:
    return Fraction(m["seconds_per_step"]) + Fraction(n) / Fraction(m["tokens_per_second"])


def right(case: dict) -> list[int]:
    n, m = case["num_tokens"], case["machine"]
    return [size for size in case["sizes"] if swap_seconds(n, size, m) < recompute_seconds(n, m)]


def _clear(case: dict) -> bool:
    n, m = case["num_tokens"], case["machine"]
    again = recompute_seconds(n, m)
    return all(abs(swap_seconds(n, size, m) - again) > MARGIN * again for size in case["sizes"])


def _case(
    n: int, rate: float, start: float, bandwidth: float, step: float, per_token: int = 131072, sizes: list | None = None
) -> dict:
    machine = {
        "bytes_per_token": per_token, "bytes_per_second": bandwidth, "seconds_per_block": start,
        "tokens_per_second": rate, "seconds_per_step": step,
    }  # fmt: skip
    return {"num_tokens": n, "sizes": sizes or SIZES, "machine": machine}


def _cases(rng: random.Random, seed: int) -> list[dict]:
    # Always there: small blocks lose; the half-empty last block makes large ones lose again; never; always.
    cases = [
        _case(2048, 20_000.0, 3.2e-4, 25e9, 0.0),
        _case(20, 8_000.0, 1e-5, 8e9, 0.0),
        _case(500, 200_000.0, 1e-4, 10e9, 0.0),
        _case(500, 100.0, 1e-5, 10e9, 0.01),
        _case(12, 20_000.0, 1e-5, 20e9, 0.02),
        # Other sizes, in no order; one or none of them; every term decides once.
        _case(20, 8_000.0, 1e-5, 8e9, 0.0, sizes=[64, 4, 128, 16, 1]),
        _case(2048, 20_000.0, 3.2e-4, 25e9, 0.0, sizes=[100, 3, 24, 7]),
        _case(500, 100.0, 1e-5, 10e9, 0.01, sizes=[5]),
        _case(500, 200_000.0, 1e-4, 10e9, 0.0, sizes=[5]),
        _case(4, 1e6, 1e-5, 1e9, 5e-3, sizes=[1, 4, 16, 2]),  # the step alone
        _case(5, 1e6, 1.5e-3, 50e9, 1e-2, sizes=[1, 4]),  # the step, once
        _case(1000, 50_000.0, 1e-3, 50e9, 0.0, sizes=[16, 100, 200, 1000]),  # the start of each block, twice
        _case(1000, 50_000.0, 1e-6, 10e9, 0.0, per_token=150_000, sizes=[8, 10, 1000]),  # the bytes, twice
        _case(1000, 50_000.0, 1e-6, 10e9, 0.0, per_token=80_000, sizes=[8, 10, 1000]),
        _case(33, 5_000.0, 1e-6, 1e9, 0.0, per_token=70_000, sizes=[8, 16, 32, 33, 64]),  # the last block, whole
        # Powers of two, so that every sum is exact: the bytes of size 1; the step.
        _case(64, 64.0, 2**-9, 2**10, 0.0, per_token=8, sizes=[1, 2, 32]),
        _case(128, 128.0, 2**-4, 2**10, 0.015625, per_token=2, sizes=[16, 32, 64]),
        # A tie at 16, exactly: with full blocks; with an empty half, and a step that takes time.
        _case(64, 64.0, 2**-4, 2**10, 0.0, per_token=4, sizes=[8, 16, 32]),
        _case(24, 64.0, 2**-4, 2**10, 0.125, per_token=4, sizes=[4, 8, 16]),
    ]
    # A machine so fast that both are below a microsecond.
    cases.append(_case(2, 1e7, 2e-8, 1e14, 0.0, sizes=[1, 2]))
    cases.append(_case(2, 1e7, 3e-8, 1e14, 1e-7, sizes=[1, 2]))
    while len(cases) < 28:
        case = _case(
            rng.randint(1, 4000), 10 ** rng.uniform(2, 5.3), 10 ** rng.uniform(-6, -3), 10 ** rng.uniform(9, 10.7),
            rng.choice([0.0, 10 ** rng.uniform(-3, -1)]), rng.choice([23040, 46080, 131072]),
        )  # fmt: skip
        if _clear(case):
            cases.append(case)
    return cases


def _case_and_answer(case: dict, answer: dict) -> str:
    m = case["machine"]
    text = ", ".join(f"{name} {value:.3g}" for name, value in m.items())
    return f"{case['num_tokens']} tokens, sizes {case['sizes']}, {text}: swap_pays gave {show(answer['sizes'])}"


def _shape(case: dict, answer: dict) -> str | None:
    return None if is_ints(answer["sizes"]) else _case_and_answer(case, answer)


def _of(wrong: Any) -> Any:
    def broken(case: dict, answer: dict) -> str | None:
        size = wrong(case, answer["sizes"], right(case))
        if size is None:
            return None
        n, m = case["num_tokens"], case["machine"]
        swap, again = float(swap_seconds(n, size, m)), float(recompute_seconds(n, m))
        return (
            f"{_case_and_answer(case, answer)}; at block size {size} swapping takes {1000 * swap:.4g} ms and computing "
            f"{1000 * again:.4g} ms"
        )

    return broken


def _half_empty(case: dict, size: int) -> bool:
    """Whether swapping would pay at that size if only the full blocks moved, or of the last one only its tokens."""
    n, m = case["num_tokens"], case["machine"]
    empty = Fraction((-n % size) * m["bytes_per_token"]) / Fraction(m["bytes_per_second"])
    without = swap_seconds(n - n % size, size, m)
    return min(without, swap_seconds(n, size, m) - 2 * empty) < recompute_seconds(n, m)


def _tie(case: dict, size: int) -> bool:
    return swap_seconds(case["num_tokens"], size, case["machine"]) == recompute_seconds(
        case["num_tokens"], case["machine"]
    )


def _too_dear(case: dict, mine: list, expected: list) -> int | None:
    """Said to pay, though starting on so many blocks takes too long."""
    return next((s for s in mine if not (s in expected or _half_empty(case, s) or _tie(case, s))), None)


def _too_large(case: dict, mine: list, expected: list) -> int | None:
    return next((s for s in mine if not (s in expected or _tie(case, s))), None)


def _as_long(case: dict, mine: list, expected: list) -> int | None:
    return next((s for s in mine if s not in expected), None)


def _left_out(case: dict, mine: list, expected: list) -> int | None:
    return next((s for s in expected if s not in mine), None)


def _strange(case: dict, answer: dict) -> str | None:
    size = next((size for size in answer["sizes"] if size not in case["sizes"]), None)
    return None if size is None else f"{_case_and_answer(case, answer)}; {size} is not in sizes"


def _order(case: dict, answer: dict) -> str | None:
    return None if answer["sizes"] == right(case) else f"{_case_and_answer(case, answer)}; expected is {right(case)}"


def _kept(case: dict, answer: dict) -> str | None:
    if answer["given"] == [case["sizes"], case["machine"]]:
        return None
    return f"sizes and machine are {show(answer['given'])} after the call"


CHOICE = Part(
    "08.2",
    "at which block sizes swapping pays",
    1,
    ("swap_pays",),
    _cases,
    probes.choice,
    (
        Property("swap_pays returns a list of block sizes", _shape, ("Those of sizes at which swapping is quicker.",)),
        Property(
            "only sizes that were asked about are in it",
            _strange,
            ("Go through the list sizes, whatever is in it.",),
        ),
        Property(
            "each block has its own price, twice",
            _of(_too_dear),
            (
                "How many blocks are there at that size, and what does it take to start on each of them, out and in?",
                "Twice: blocks × seconds_per_block, and the bytes of all blocks / bytes_per_second.",
            ),
        ),
        Property(
            "the last block moves whole",
            _of(_too_large),
            ("At that size most of the block is empty, and it is carried all the same.",),
        ),
        Property(
            "no size is left out",
            _of(_left_out),
            (
                "Compute both times for that size by hand. Which is larger?",
                "Recomputing takes seconds_per_step, and on top of it the tokens / tokens_per_second.",
            ),
        ),
        Property(
            "where both take the same time, swapping does not pay",
            _of(_as_long),
            ("The text asks where swapping takes *less* time.",),
        ),
        Property("they come in the order of sizes, each once", _order, ("Go through sizes from the left.",)),
        Property("sizes and machine stay as they are", _kept, ("They are the caller's: change nothing in them.",)),
    ),
)
