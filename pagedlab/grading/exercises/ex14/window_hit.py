"""Part 14.3: what a group with a window hits."""

from __future__ import annotations

import random
from typing import Any

from pagedlab.grading.draws import twice
from pagedlab.grading.exercises.ex14.drawn import NULL
from pagedlab.grading.part import Part, Property
from pagedlab.grading.plain import is_ints, raised, same, show
from pagedlab.grading.tasks.ex14 import probes


def right(case: dict) -> list[int]:
    """By its meaning: the longest start after which the next token finds all that it looks at."""
    found = case["found"]
    needed = -(-(case["window"] - 1) // case["block_size"])
    for end in range(len(found), 0, -1):
        first = max(0, end - needed)
        if None not in found[first:end]:
            return [NULL] * first + found[first:end]
    return []


def _cases(rng: random.Random, seed: int) -> list[dict]:
    rows = [
        ([4, 7, None, 2, 6], 6, 4), ([4, 7, None, None, 6], 6, 4), ([None, None, None, 2, 6], 6, 4),
        ([4, None, None, 2, None], 6, 4), ([4, 7, 3, 2, 6], 6, 4), ([None, 7, None, 2, None], 6, 4),
        ([None, 7, 1, 2, None, 5], 10, 4), ([3, 7, None, 2, 8, None], 14, 4), ([3, 7, 1, None, 8, 9], 14, 4),
        ([3, 7, 1, None, 8, 9], 13, 4), ([], 6, 4), ([None], 6, 4), ([5], 6, 4), ([5], 100, 4), ([5, 9, 8], 100, 4),
        ([None, 9, 8], 100, 4), ([5, None, 8], 100, 4), ([5, None, 8, 1], 2, 4), ([5, None, 8, 1], 5, 4),
        ([5, None, 8, 1], 6, 4), ([5, None, 8, 1], 4, 1), ([5, 2, 8, 1], 4, 1), ([5, 2, None, 1, 3, 4], 3, 1),
    ]  # fmt: skip
    cases = [{"found": found, "window": window, "block_size": size} for found, window, size in rows]
    return [*cases, *twice(_drawn, rng, "14.3")]


def _drawn(rng: random.Random) -> list[dict]:
    cases = []
    for i in range(30):
        size, window = (4, 2, 16, 4, 3)[i % 5], 0
        while window < 2:
            window = size * rng.randint(0, 4) + rng.randint(0, 2)  # a block more at k * size + 2
        share = rng.choice((0.5, 0.7, 0.85))
        found = [block if rng.random() < share else None for block in rng.sample(range(1, 90), 1 + i // 2)]
        cases.append({"found": found, "window": window, "block_size": size})
    return cases


def _say(case: dict, answer: Any) -> str:
    given = f"window_hit({case['found']}, {case['window']}, {case['block_size']})"
    return f"{given}: expected is {right(case)}, found {show(answer)}"


def _shape(case: dict, answer: Any) -> str | None:
    return None if is_ints(answer) and not raised(answer) else f"window_hit({case['found']}, …) gave {show(answer)}"


def _there(case: dict, answer: list) -> str | None:
    pairs = zip(answer, case["found"], strict=False)
    if len(answer) <= len(case["found"]) and all(block in (NULL, there) for block, there in pairs):
        return None
    return _say(case, answer)


def _length(case: dict, answer: list) -> str | None:
    return None if len(answer) == len(right(case)) else _say(case, answer)


def _blocks(case: dict, answer: list) -> str | None:
    return None if same(answer, right(case)) else _say(case, answer)


WINDOW_HIT = Part(
    "14.3",
    "what a group with a window hits",
    2,
    ("window_hit",),
    _cases,
    probes.window_hit,
    (
        Property(
            "window_hit returns a list of block numbers",
            _shape,
            ("Where nothing is hit, an empty one. None is no block number.",),
        ),
        Property(
            "each place of the list is 0, or the block that was found there",
            _there,
            ("The list is the start of a table: its place i belongs to logical block i.",),
        ),
        Property(
            "the hit is as long as it can be",
            _length,
            (
                "Blocks that the window does not cover may be missing. So look from the right.",
                "The next token looks at window − 1 tokens before it. In how many blocks, at most, do they end?",
                "Near the start there are fewer than that many blocks. Then all of them have to be there.",
            ),
        ),
        Property(
            "only what the window covers is in it, and null before that",
            _blocks,
            ("A block that is there, but not needed, is left where it is: somebody else may need the room.",),
        ),
    ),
)
