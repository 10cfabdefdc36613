"""Part 15.2: how many requests fit at once here, and what limits them?"""

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

LENGTH, SEATS, POOL = "max_model_len", "max_num_seqs", "pool"


def right(case: dict) -> list[Any]:
    """[how many, what limits them]."""
    log, length = last_start(case["log"]), case["length"]
    longest = int(re.search(r"Using max model len (\d+)", log)[1])
    seats = int(re.search(r"'max_num_seqs': (\d+)", log)[1])
    tokens = int(re.search(r"KV cache size: ([\d,]+) tokens", log)[1].replace(",", ""))
    size = re.search(r"'block_size': (\d+)", log)
    size = int(size[1]) if size else 16
    if length > longest:
        return [0, LENGTH]
    fit = (tokens // size - 1) // -(-length // size)
    return [seats, SEATS] if fit >= seats else [fit, POOL]


def _cases(rng: random.Random, seed: int) -> list[dict]:
    fixed = random.Random("15.2 always")
    served = real("cpu-032-serve-preempted-unsaid")
    start = Start(total=10.0, free=9.5, utilization=0.9, weights=6.5, non_torch=0.5, activation=1.5, block_size=32,
                  max_model_len=1024, max_num_seqs=8)  # fmt: skip
    small = _one(start, fixed)  # 128 blocks of 32, one of them the null block: 0.5 GiB
    # a block's end and a token more; all that a request may have, and more; as many as there are seats; the null block
    lengths = (512, 513, 1024, 1025, 480, 481, 32, 33, 1, 2048)
    cases = [{"log": small, "length": length} for length in lengths]
    all_of_it = _one(replace(start, max_num_seqs=1024), fixed)  # 127 blocks, a block each
    cases += [{"log": all_of_it, "length": length} for length in (31, 32, 33)]
    cases += [{"log": served, "length": length} for length in (64, 96, 128, 320, 1000, 1024, 1025)]
    again = _one(drawn(fixed, block_size=None, max_num_seqs=1024), fixed, before=start)
    back = _one(start, fixed, before=drawn(fixed, block_size=None, max_num_seqs=1024))
    cases += [{"log": log, "length": length} for log in (again, back) for length in (640, 1000)]
    few = _one(replace(start, weights=6.9, max_model_len=512), fixed)  # no thousand tokens
    many = _one(replace(start, total=80.0, free=79.5, kib_a_token=12, block_size=128, max_num_seqs=1024), fixed)
    cases += [{"log": log, "length": length} for log in (few, many) for length in (300, 512, 513, 1025)]
    return [*cases, *twice(_drawn, rng, "15.2")]


def _drawn(rng: random.Random) -> list[dict]:
    cases = []
    for i in range(8):
        start = drawn(rng)
        log = _one(start, rng, before=drawn(rng) if i % 4 == 3 else None)
        blocks = rng.randint(1, max(1, start.max_model_len // start.size))
        near = start.size * blocks + rng.choice((-1, 0, 1))
        cases.append({"log": log, "length": max(1, near if i % 5 else start.max_model_len + 1)})
    return cases


def _one(start: Start, rng: random.Random, before: Start | None = None) -> str:
    log = Log()
    if before:
        log.started(before, rng)
    return log.started(start, rng).text


def _of(wrong: Callable[[list, list], bool]) -> Callable[[dict, Any], str | None]:
    def broken(case: dict, answer: Any) -> str | None:
        expected = right(case)
        if not wrong(answer, expected):
            return None
        lines = (line_with(case["log"], words) for words in ("non-default args", "KV cache size"))
        return f"length {case['length']}: expected is {expected}, found {show(answer)}; {'; '.join(lines)}"

    return broken


def _shape(case: dict, answer: Any) -> str | None:
    pair = type(answer) is list and len(answer) == 2 and not raised(answer)
    if pair and is_int(answer[0], 0) and type(answer[1]) is str and answer[1] in (LENGTH, SEATS, POOL):
        return None
    return f"at_once gave {show(answer)}"


AT_ONCE = Part(
    "15.2",
    "what limits concurrency, from a log",
    2,
    ("at_once",),
    _cases,
    probes.at_once,
    (
        Property(
            'at_once returns a number and "max_model_len", "max_num_seqs" or "pool"',
            _shape,
            ('(12, "pool"), for example.',),
        ),
        Property(
            "a request longer than max_model_len is turned away, and only such a one",
            _of(lambda answer, true: (answer[1] == LENGTH) != (true[1] == LENGTH)),
            ("Exactly max_model_len is allowed. The length is that of the last start.",),
        ),
        Property(
            "as many fit as whole blocks allow, and no more than there are seats",
            _of(lambda answer, true: answer[0] != true[0]),
            (
                "A request takes whole blocks: 33 tokens take two of 32.",
                "One block of the pool is never handed out.",
                "The printed concurrency is for requests of max_model_len. Yours are shorter.",
            ),
        ),
        Property(
            "the pool is the limit where it holds fewer than max_num_seqs",
            _of(lambda answer, true: answer[1] != true[1]),
            ("Where the pool holds exactly as many as there are seats, the seats are the limit.",),
        ),
    ),
)
