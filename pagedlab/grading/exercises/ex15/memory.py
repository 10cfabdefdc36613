"""Part 15.1: where did the card's memory go?"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pagedlab.grading.draws import twice
from pagedlab.grading.exercises.ex15.logs import Log, Start, drawn, last_start, line_with, real
from pagedlab.grading.part import Part, Property
from pagedlab.grading.plain import is_int, raised, show
from pagedlab.grading.tasks.ex15 import probes

NAMES = ("others", "engine", "pool", "blocks")
ROUNDING = 0.011  # GiB


def right(log: str) -> dict[str, Any]:
    """By the lines of the last start."""
    log = last_start(log)
    free, total = _numbers(r"Free memory on device \(([\d.]+)/([\d.]+) GiB\)", log)
    used = _numbers(r"Actual usage is ([\d.]+) GiB for consumed memory.*?, ([\d.]+) GiB for peak activation", log)
    [pool] = _numbers(r"Available KV cache memory: ([\d.]+) GiB", log)
    tokens = int(re.search(r"KV cache size: ([\d,]+) tokens", log)[1].replace(",", ""))
    size = re.search(r"'block_size': (\d+)", log)
    return {
        "others": round(total - free, 2),
        "engine": round(sum(used), 2),
        "pool": pool,
        "blocks": tokens // (int(size[1]) if size else 16),
    }


def _numbers(pattern: str, log: str) -> list[float]:
    return [float(number) for number in re.search(pattern, log).groups()]


def _cases(rng: random.Random, seed: int) -> list[dict]:
    fixed = random.Random("15.1 always")
    small = Start(total=10.0, free=9.5, utilization=0.9, weights=4.0, non_torch=0.5, activation=1.5, graphs=0.25,
                  max_model_len=1024)  # fmt: skip
    less_than_half = Start(total=24.0, free=9.5, utilization=0.35, weights=4.0, non_torch=0.5, activation=1.5,
                           max_model_len=1024)  # fmt: skip
    logs = [
        _one(small, fixed),
        _one(less_than_half, fixed),
        real("a100-031-start"),
        _one(drawn(fixed, block_size=32), fixed),
        _one(drawn(fixed, block_size=None), fixed, before=drawn(fixed, block_size=64)),
        _one(drawn(fixed, block_size=64), fixed, before=drawn(fixed, block_size=None)),
    ]
    roomy = {"total": 139.8, "free": 139.1, "weights": 61.2}
    logs += [_one(replace(small, kib_a_token=128, weights=6.9, max_model_len=512), fixed)]  # no thousand tokens
    logs += [_one(drawn(fixed, kib_a_token=12, block_size=size, **roomy), fixed) for size in (8, 128)]  # millions
    return [{"log": log} for log in (*logs, *twice(_drawn, rng, "15.1"))]


def _drawn(rng: random.Random) -> list[str]:
    return [_one(drawn(rng), rng, before=drawn(rng) if i % 3 == 2 else None) for i in range(6)]


def _one(start: Start, rng: random.Random, before: Start | None = None) -> str:
    log = Log()
    if before:
        log.started(before, rng)
    return log.started(start, rng).text


def _of(name: str, words: str) -> Callable[[dict, Any], str | None]:
    """A property of one figure, shown with the line that it stands in."""

    def broken(case: dict, answer: Any) -> str | None:
        expected, found = right(case["log"])[name], answer[name]
        if is_int(found) and found == expected or name != "blocks" and abs(found - expected) < ROUNDING:
            return None
        return f"{name} is {show(found)}, expected is {expected}; the last start says: {line_with(case['log'], words)}"

    return broken


def _shape(case: dict, answer: Any) -> str | None:
    good = type(answer) is dict and not raised(answer) and sorted(answer) == sorted(NAMES)
    if good and is_int(answer["blocks"]) and all(type(answer[name]) in (int, float) for name in NAMES):
        return None
    return f"memory gave {show(answer)}"


MEMORY = Part(
    "15.1",
    "where the card's memory went, from a log",
    2,
    ("memory",),
    _cases,
    probes.memory,
    (
        Property(
            "memory returns a dict of others, engine, pool (numbers) and blocks (an int)",
            _shape,
            ("Every number in a log is text. float(…) and int(…) make numbers of it; int does not like commas.",),
        ),
        Property(
            "the pool's GiB are those of the last start",
            _of("pool", "Available KV cache memory"),
            ("Is there more than one start in the log? re.search finds the first, re.findall all of them.",),
        ),
        Property(
            "others is what was not free when the engine started",
            _of("others", "Free memory on device"),
            ("(free/total): the card's memory, less what was free of it.",),
        ),
        Property(
            "engine is weights, what is not torch's, and the activations' peak",
            _of("engine", "Free memory on device"),
            (
                "Two numbers of that line, added.",
                "Graphs are captured later; an estimate of them is in the activations' figure already.",
            ),
        ),
        Property(
            "blocks are the pool's tokens, by the block size of that start",
            _of("blocks", "KV cache size"),
            ("The block size is among the arguments, where it was given; else it is 16.",),
        ),
    ),
)
