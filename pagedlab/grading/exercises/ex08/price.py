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
    # Always there: whole blocks that are all there, with a rest and without one; a gap; nothing left.
    cases.insert(0, {"num_tokens": 9, "block_size": 4, "kept": [True, True], "bytes": 10})
    cases.insert(1, {"num_tokens": 8, "block_size": 4, "kept": [True, True], "bytes": 10})
    cases.insert(2, {"num_tokens": 14, "block_size": 4, "kept": [True, False, True], "bytes": 10})
    cases.insert(3, {"num_tokens": 6, "block_size": 4, "kept": [False], "bytes": 10})
    return cases


def swap_bytes(case: dict) -> int:
    blocks = -(-case["num_tokens"] // case["block_size"])
    return 2 * blocks * case["block_size"] * case["bytes"]


def recompute_tokens(case: dict) -> int:
    leading = (case["kept"] + [False]).index(False)
    found = min(leading, (case["num_tokens"] - 1) // case["block_size"])
    return case["num_tokens"] - found * case["block_size"]


def _told(case: dict, answer: dict, what: str) -> str:
    sizes = f"{case['num_tokens']}, {case['block_size']}"
    if what == "swap":
        return f"swap_bytes({sizes}, {case['bytes']}) gave {show(answer['swap'])}"
    return f"recompute_tokens({sizes}, {case['kept']}) gave {show(answer['recompute'])}"


def _numbers(case: dict, answer: dict) -> str | None:
    for what in ("swap", "recompute"):
        if not is_int(answer[what], 0):
            return _told(case, answer, what)
    return None


def _whole(case: dict, answer: dict) -> str | None:
    return None if answer["swap"] % (case["block_size"] * case["bytes"]) == 0 else _told(case, answer, "swap")


def _both_ways(case: dict, answer: dict) -> str | None:
    return None if same(answer["swap"], swap_bytes(case)) else _told(case, answer, "swap")


def _gap(case: dict, answer: dict) -> str | None:
    leading = (case["kept"] + [False]).index(False)
    least = case["num_tokens"] - leading * case["block_size"]
    return None if answer["recompute"] >= least else _told(case, answer, "recompute")


def _last(case: dict, answer: dict) -> str | None:
    return None if answer["recompute"] >= 1 else _told(case, answer, "recompute")


def _right(case: dict, answer: dict) -> str | None:
    return None if same(answer["recompute"], recompute_tokens(case)) else _told(case, answer, "recompute")


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
            "a swap carries whole blocks",
            _whole,
            ("How many blocks do the tokens lie in? The last one moves too, however little is in it.",),
        ),
        Property(
            "a swap carries every block twice",
            _both_ways,
            ("The blocks go out, and one day they come in again.", "The number of blocks is rounded up."),
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
    ),
)
