"""Part 08.1: what a swap carries, and what a recomputation computes."""

from __future__ import annotations

import random

from pagedlab.grading.part import Part, Property
from pagedlab.grading.plain import is_int, same, show
from pagedlab.grading.tasks.ex08 import probes


def _cases(rng: random.Random, seed: int) -> list[dict]:
    cases = []
    for i in range(28):
        size = (4, 16, 1, 8, 3)[i % 5]
        num_tokens = rng.randint(1, 12 * size) if i % 4 else size * rng.randint(1, 6)
        full = num_tokens // size
        leading = rng.randint(0, full)
        kept = [b < leading or (b > leading and rng.random() < 0.6) for b in range(full)]
        cases.append({"num_tokens": num_tokens, "block_size": size, "kept": kept, "bytes": rng.choice([2, 36, 46080])})
    # Much of it: a rest of one token in a large block; a gap late and one early, of many blocks.
    large = [(129, 128, [True]), (513, 128, [True, True, False, True])]
    large += [(200, 4, [True] * 45 + [False] + [True] * 4), (200, 4, [True] * 3 + [False] + [True] * 46)]
    large += [(401, 4, [True] * 100), (401, 4, [True] * 99 + [False])]
    names = ("num_tokens", "block_size", "kept")
    return [*_fixed_cases(), *cases, *(dict(zip(names, case, strict=True)) | {"bytes": 46080} for case in large)]


def _fixed_cases() -> list[dict]:
    """Always asked about: all is there, with a rest and without one; every gap; one token; no full block."""
    found = []
    for num_tokens, size in (
        (9, 4),
        (8, 4),
        (14, 4),
        (6, 4),
        (3, 4),
        (4, 4),
        (1, 1),
        (3, 1),
        (1, 16),
        (17, 16),
        (48, 16),
    ):
        full = num_tokens // size
        for missing in (None, *range(full)):
            kept = [block != missing for block in range(full)]
            found.append({"num_tokens": num_tokens, "block_size": size, "kept": kept, "bytes": 10})
    return found


def swap_bytes(case: dict) -> int:
    blocks = -(-case["num_tokens"] // case["block_size"])
    return 2 * blocks * case["block_size"] * case["bytes"]


def recompute_tokens(case: dict) -> int:
    leading = (case["kept"] + [False]).index(False)
    found = min(leading, (case["num_tokens"] - 1) // case["block_size"])
    return case["num_tokens"] - found * case["block_size"]


def _say(case: dict, answer: dict, what: str) -> str:
    sizes = f"{case['num_tokens']}, {case['block_size']}"
    if what == "swap":
        return f"swap_bytes({sizes}, {case['bytes']}): expected {swap_bytes(case)}, found {show(answer['swap'])}"
    expected = recompute_tokens(case)
    return f"recompute_tokens({sizes}, {case['kept']}): expected {expected}, found {show(answer['recompute'])}"


def _numbers(case: dict, answer: dict) -> str | None:
    for what in ("swap", "recompute"):
        if not is_int(answer[what]):
            return _say(case, answer, what)
    return None


def _whole(case: dict, answer: dict) -> str | None:
    """So many blocks, carried once, twice or more often."""
    right = swap_bytes(case)
    return None if answer["swap"] in (right // 2, right, 2 * right) else _say(case, answer, "swap")


def _both_ways(case: dict, answer: dict) -> str | None:
    return None if same(answer["swap"], swap_bytes(case)) else _say(case, answer, "swap")


def _gap(case: dict, answer: dict) -> str | None:
    leading = (case["kept"] + [False]).index(False)
    least = case["num_tokens"] - leading * case["block_size"]
    return None if answer["recompute"] >= least else _say(case, answer, "recompute")


def _last(case: dict, answer: dict) -> str | None:
    return None if answer["recompute"] >= 1 else _say(case, answer, "recompute")


def _kept(case: dict, answer: dict) -> str | None:
    return None if answer["kept"] == case["kept"] else f"kept was {case['kept']} and is {show(answer['kept'])} now"


def _right(case: dict, answer: dict) -> str | None:
    return None if same(answer["recompute"], recompute_tokens(case)) else _say(case, answer, "recompute")


PRICE = Part(
    "08.1",
    "what is carried, and what is computed",
    2,
    ("swap_bytes", "recompute_tokens"),
    _cases,
    probes.price,
    (
        Property("both give a whole number", _numbers, ("// divides whole numbers. A float is another thing.",)),
        Property(
            "a swap carries whole blocks, as many as the tokens lie in",
            _whole,
            (
                "How many blocks do the tokens lie in? The last one moves too, however little is in it.",
                "The number of blocks is rounded up. 8 tokens in blocks of 4 are two blocks, 9 are three.",
            ),
        ),
        Property(
            "a swap carries every block twice",
            _both_ways,
            ("The blocks go out, and one day they come in again.",),
        ),
        Property(
            "a block behind a missing one does not help",
            _gap,
            ("Hits are a prefix: the walk from the left ends at the first block that is not there.",),
        ),
        Property(
            "something is always computed",
            _last,
            ("The model must run over the last token, or it has nothing to choose the next one from.",),
        ),
        Property(
            "what can be found is not computed again, and everything else is",
            _right,
            (
                "All tokens, less those in the leading blocks that are still there.",
                "The last token's block never counts as found: at most (num_tokens - 1) // block_size blocks do.",
            ),
        ),
        Property("the list kept stays as it is", _kept, ("It is the caller's: take nothing out of it.",)),
    ),
)
