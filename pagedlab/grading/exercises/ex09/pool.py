"""Part 09.1: how many blocks does the pool get, or why does the engine not come up?"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from pagedlab.engine.cards import CARDS
from pagedlab.grading.draws import twice
from pagedlab.grading.part import Part, Property
from pagedlab.grading.plain import is_int, raised, show
from pagedlab.grading.tasks.ex09 import probes
from pagedlab.grading.tasks.ex09.probes import NAMES

OUT_OF_MEMORY, NO_ROOM = "out of memory", "no room"
EXACT = (25, 50, 75, 100)  # hundredths that a float holds exactly


def right(case: dict) -> int | str:
    """The sum of ``engine/cards.py``, for sizes in MiB."""
    allowed = int(case["utilization"] * case["card"])
    if allowed > case["free"]:
        return OUT_OF_MEMORY
    left = allowed - case["weights"] - case["activations"] - case["other"]
    blocks = max(0, left) // case["block"]
    return blocks if blocks >= 2 else NO_ROOM


def _cases(rng: random.Random, seed: int) -> list[dict]:
    cases = [
        (100, 98, 0.5, 20, 6, 4, 2),
        (100, 98, 0.75, 20, 6, 4, 7),  # a rest that is no whole block
        (100, 75, 0.75, 20, 6, 4, 2),  # all that is free
        (100, 49, 0.5, 20, 6, 4, 2),  # a little more than is free
        (100, 98, 0.5, 40, 2, 4, 2),  # the null block and one more
        (100, 98, 0.5, 40, 4, 4, 2),  # the null block only
        (100, 98, 0.5, 80, 4, 4, 2),  # the weights alone are too large
        (1000, 990, 0.875, 200, 60, 40, 1),  # a share of more than two digits
        (1000, 874, 0.875, 200, 60, 40, 1),
        (100, 40, 0.5, 80, 4, 4, 2),  # and then more than is free
        (100, 100, 1.0, 20, 6, 4, 3),
        (100, 100, 1.0, 20, 6, 4, 7),  # the whole card, and a rest of nothing
        (1003, 1000, 0.5, 20, 6, 4, 1),  # half a MiB is no block
        (1002, 1000, 0.75, 20, 6, 4, 1),
        (100, 98, 0.5, 45, 1, 2, 1),  # the null block and one more, of one MiB
        (100, 98, 0.5, 45, 2, 2, 1),
        (100, 98, 0.5, 46, 1, 2, 1),
        (100, 98, 0.5, 45, 1, 3, 1),
        (100, 98, 0.5, 46, 2, 2, 1),  # nothing is left
        (100, 74, 0.75, 20, 6, 4, 2),  # one MiB more than is free
        (100, 74, 0.75, 80, 6, 4, 2),  # and no room either: out of memory comes first
        (200, 120, 0.5, 20, 6, 4, 8),
    ]
    return [dict(zip(NAMES, case, strict=True)) for case in (*cases, *twice(_drawn, rng, "09.1"))]


def _drawn(rng: random.Random) -> list[tuple]:
    drawn: list[tuple] = []
    while len(drawn) < 20:
        card, hundredths = round(1024 * rng.choice(list(CARDS.values()))), rng.randint(50, 99)
        if card * hundredths % 100 == 0 and hundredths not in EXACT:
            continue  # rounding would decide
        allowed = hundredths * card / 100
        free = card - rng.randint(256, 6144)
        if abs(allowed - free) < 2:
            continue
        weights = int(rng.uniform(0.1, 0.9) * card)
        activations, other, block = rng.randint(200, 3000), rng.randint(300, 2000), rng.choice((1, 2, 3, 8))
        drawn.append((card, free, hundredths / 100, weights, activations, other, block))
    return drawn


def _number(case: dict) -> str:
    return "a number" if is_int(right(case)) else repr(right(case))


def _exactly(case: dict) -> str:
    allowed = int(case["utilization"] * case["card"])
    return f"{right(case)} ({allowed} MiB may be used, and block is {case['block']})"


def _of(wrong: Callable[[Any, int | str], bool], expected: Callable[[dict], str] = _number) -> Any:
    def broken(case: dict, answer: Any) -> str | None:
        if not wrong(answer, right(case)):
            return None
        call = f"pool_blocks({', '.join(f'{name}={case[name]}' for name in NAMES)})"
        return f"{call}: expected is {expected(case)}, found {show(answer)}"

    return broken


def _one_of_them(answer: Any) -> bool:
    return not raised(answer) and (is_int(answer) or answer in (OUT_OF_MEMORY, NO_ROOM))


POOL = Part(
    "09.1",
    "the pool from the knobs",
    2,
    ("pool_blocks",),
    _cases,
    probes.pool,
    (
        Property(
            'pool_blocks returns a plain int, "out of memory" or "no room"',
            _of(lambda answer, _: not _one_of_them(answer)),
            ("u · card is a float, and so is everything made of it, even with //. int(…) makes it whole.",),
        ),
        Property(
            "the engine does not come up when it asks for more than is free, and only then is out of memory",
            _of(lambda answer, true: (answer == OUT_OF_MEMORY) != (true == OUT_OF_MEMORY)),
            (
                "It asks for its whole share at once, before anything is loaded. So look at this first.",
                "Its share is a share of the card, not of what is free. Exactly as much as is free is not too much.",
            ),
        ),
        Property(
            "the pool is what is left over, in whole blocks",
            _of(lambda answer, true: is_int(answer) and is_int(true) and answer != true, _exactly),
            (
                "Who lives in the engine's share beside the pool? Three of the arguments do.",
                "What other programs hold makes free smaller. It is not part of the engine's share.",
            ),
        ),
        Property(
            "there is room when the null block and at least one more fit, and only then",
            _of(lambda answer, true: (answer == NO_ROOM) != (true == NO_ROOM)),
            ("What is left may even be below zero.", "One block is not enough: block 0 never holds a token."),
        ),
    ),
)
