"""Part 07.3: the longest prefix that is in memory."""

from __future__ import annotations

import random

from pagedlab.grading.part import Part, Property
from pagedlab.grading.plain import is_ints, same, show
from pagedlab.grading.tasks.ex07 import probes


def _cases(rng: random.Random, seed: int) -> list[dict]:
    cases = []
    for i in range(24):
        size, full = (4, 2, 3, 16, 1)[i % 5], 1 + i // 4
        num_tokens = full * size + (rng.randint(1, size - 1) if size > 1 and i % 3 else 0)
        leading = rng.randint(0, full)
        cached = [b for b in range(full) if b < leading or (b > leading and rng.random() < 0.5)]
        ids = rng.sample(range(1, 60), full)
        cases.append(
            {"block_size": size, "num_tokens": num_tokens, "full": full, "cached": {str(b): ids[b] for b in cached}}
        )
    large = {"block_size": 4, "num_tokens": 133, "full": 33, "cached": {str(b): 10 + b for b in range(33)}}
    return [*_fixed_cases(), *cases, large]


def _fixed_cases() -> list[dict]:
    """Always asked about: all in memory, with a rest and without one; every gap; nothing; one token."""
    found = []
    sizes = ((4, 9), (4, 8), (4, 14), (4, 5), (4, 4), (4, 3), (1, 1), (1, 2), (1, 4), (16, 48), (16, 49))
    for size, num_tokens in sizes:
        full = num_tokens // size
        for missing in (None, *range(full)):
            cached = {str(b): 7 + 4 * (-1) ** b + b for b in range(full) if b != missing}
            found.append({"block_size": size, "num_tokens": num_tokens, "full": full, "cached": cached})
    return [*found, {"block_size": 4, "num_tokens": 9, "full": 2, "cached": {}}]


def _right(case: dict, limit: int) -> list[int]:
    found = []
    while len(found) < limit and str(len(found)) in case["cached"]:
        found.append(case["cached"][str(len(found))])
    return found


def _say(case: dict, answer: dict) -> str:
    held = ", ".join(f"logical block {i} in #{b}" for i, b in case["cached"].items()) or "nothing"
    return (
        f"{case['num_tokens']} tokens in blocks of {case['block_size']}, in memory are {held}: "
        f"expected is {_expected(case)}, found {show(answer['found'])}"
    )


def _expected(case: dict) -> str:
    right = _right(case, (case["num_tokens"] - 1) // case["block_size"])
    return f"[{', '.join(f'#{b}' for b in right)}]" if right else "an empty list"


def _kept(case: dict, answer: dict) -> str | None:
    if len(answer["given"]) == case["full"]:
        return None
    return f"{case['full']} names were handed in, and {len(answer['given'])} are in the list now"


def _shape(case: dict, answer: dict) -> str | None:
    return None if is_ints(answer["found"]) else _say(case, answer)


def _gap(case: dict, answer: dict) -> str | None:
    longest = _right(case, case["full"])
    return None if same(answer["found"], longest[: len(answer["found"])]) else _say(case, answer)


def _last(case: dict, answer: dict) -> str | None:
    most = (case["num_tokens"] - 1) // case["block_size"]
    return None if len(answer["found"]) <= most else _say(case, answer)


def _longest(case: dict, answer: dict) -> str | None:
    right = _right(case, (case["num_tokens"] - 1) // case["block_size"])
    return None if same(answer["found"], right) else _say(case, answer)


HITS = Part(
    "07.3",
    "longest_hit finds what need not be computed",
    2,
    ("longest_hit",),
    _cases,
    probes.hits,
    (
        Property(
            "longest_hit returns a list of blocks",
            _shape,
            ("A list of those that find returned, these themselves and nothing else. None is no block.",),
        ),
        Property(
            "the blocks are the first ones of the prompt, without a gap",
            _gap,
            ("A prefix ends at the first block that is missing.", "What lies behind a miss cannot be used: stop."),
        ),
        Property(
            "the last token is never found",
            _last,
            (
                "To choose the next token, the model needs the last one's output. It has to be computed.",
                "A hit is a whole block. How many blocks lie entirely before the last token?",
            ),
        ),
        Property(
            "nothing that could be used is left out",
            _longest,
            (
                "Only the block of the last token is left alone, and that only where it is full.",
                "9 tokens in blocks of 4: the last one is alone in the third block, so both full ones can be used.",
            ),
        ),
        Property("the list of names stays as it is", _kept, ("It is the caller's: take nothing out.",)),
    ),
)
