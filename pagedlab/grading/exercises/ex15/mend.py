"""Part 15.3: what failed, and which knob mends it?"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pagedlab.grading.draws import twice
from pagedlab.grading.exercises.ex15.logs import GIB, KIB, Log, Start, drawn, last_start, real
from pagedlab.grading.part import Part, Property
from pagedlab.grading.plain import is_int, raised, show
from pagedlab.grading.tasks.ex15 import probes

SHARE, LENGTH = "gpu_memory_utilization", "max_model_len"
KINDS = ("card taken", "pool too small", "no room", "out of memory")
SEE = "See https://docs.vllm.ai/en/latest/configuration/conserving_memory/ for more details."


def right(log: str) -> list[Any] | None:
    """[what failed, the knob, its value]; None where the last start did not fail."""
    log = last_start(log)
    if found := re.search(r"\(([\d.]+)/([\d.]+) GiB\) on startup is less than desired", log):
        return ["card taken", SHARE, int(100 * float(found[1]) / float(found[2])) / 100]
    if found := re.search(r"the estimated maximum model length is (\d+)", log):
        return ["pool too small", LENGTH, int(found[1])]
    if "No available memory for the cache blocks" in log:
        return ["no room", SHARE, "higher"]
    if "OutOfMemoryError" in log:
        return ["out of memory", SHARE, "lower"]
    return None


def taken(start: Start) -> str:
    log = Log()
    log.arguments(start)
    log.failed(
        f"ValueError: Free memory on device cuda:0 ({start.free}/{start.total} GiB) on startup is less than desired "
        f"GPU memory utilization ({start.utilization}, {start.budget} GiB). Decrease GPU memory utilization or reduce "
        "GPU memory used by other processes."
    )
    return log.text


def too_small(start: Start) -> str:
    """A start whose pool holds fewer tokens than max_model_len."""
    log, needed = Log(), start.max_model_len * start.kib_a_token * KIB / GIB
    log.arguments(start)
    log.loaded(start)
    log.failed(
        f"ValueError: To serve at least one request with the model's max seq len ({start.max_model_len}), "
        f"({needed:.2f} GiB KV cache is needed, which is larger than the available KV cache memory ({start.pool} GiB). "
        f"Based on the available memory, the estimated maximum model length is {start.tokens}. Try increasing "
        "`gpu_memory_utilization` (which also controls CPU memory on the CPU backend) or decreasing `max_model_len` "
        f"when initializing the engine. {SEE}"
    )
    return log.text


def no_room(start: Start) -> str:
    log = Log()
    log.arguments(start)
    log.loaded(start)
    log.failed(
        "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when "
        "initializing the engine (this flag also controls CPU memory reservation on the CPU backend, despite its "
        f"name). {SEE}"
    )
    return log.text


def out_of_memory(start: Start, rng: random.Random) -> str:
    """While it served: the pool was there, and something else wanted more."""
    log = Log().started(start, rng)
    tried, left = rng.randint(200, 900), rng.randint(20, 190)
    log.failed(
        f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {tried}.00 MiB. GPU 0 has a total capacity of "
        f"{start.total} GiB of which {left}.75 MiB is free."
    )
    return log.text


def _cases(rng: random.Random, seed: int) -> list[dict]:
    logs = [real(name) for name in
            ("gpu47-091-memory-taken", "cpu-032-refused-pool-too-small", "a100-031-start",
             "cpu-032-serve-preempted-unsaid")]  # fmt: skip
    nearly = taken(Start(total=100.0, free=65.97))  # 0.65: who rounds to three digits first has 0.66
    return [{"log": log} for log in (*logs, nearly, *twice(_drawn, rng, "15.3"))]


def _drawn(rng: random.Random) -> list[str]:
    """Each failure alone, behind a start that succeeded, and mended by a start that does."""
    logs = []
    for make in (_taken, _too_small, _no_room, lambda rng: out_of_memory(drawn(rng), rng)):
        good = Log().started(drawn(rng), rng).text
        logs += [make(rng), good + make(rng), make(rng) + good]
    return [*logs, Log().started(drawn(rng), rng).text]


def _taken(rng: random.Random) -> str:
    """The share that fits must not hang on rounding: 0.663, not 0.6600; and rounding up would be wrong."""
    while True:
        start = drawn(rng)
        start = replace(start, free=round(start.total * rng.uniform(0.3, 0.65), 2))
        rest = 100 * start.free / start.total % 1
        if start.asks_for_too_much and 0.55 < rest < 0.95:
            return taken(start)


def _too_small(rng: random.Random) -> str:
    start = drawn(rng)
    return too_small(replace(start, max_model_len=(start.tokens // 1024 + rng.randint(1, 90)) * 1024))


def _no_room(rng: random.Random) -> str:
    start = drawn(rng)
    return no_room(replace(start, activation=round(start.budget - start.consumed + rng.uniform(0.1, 3), 2)))


def _what(log: str) -> str:
    """The lines that tell, to be shown."""
    tells = ("ValueError", "OutOfMemoryError", "KV cache size", "non-default args")
    lines = [line for line in log.splitlines() if any(word in line for word in tells)]
    return " | ".join(line[line.index("Error") - 5 :][:230] if "Error" in line else line[-150:] for line in lines)[:700]


def _of(wrong: Callable[[Any, Any], bool]) -> Callable[[dict, Any], str | None]:
    def broken(case: dict, answer: Any) -> str | None:
        expected = right(case["log"])
        if not wrong(answer, expected):
            return None
        return f"expected is {expected}, found {show(answer)}; of the log: {_what(case['log'])}"

    return broken


def _shape(case: dict, answer: Any) -> str | None:
    if answer is None:
        return None
    three = type(answer) is list and len(answer) == 3 and not raised(answer)
    if three and answer[0] in KINDS and answer[1] in (SHARE, LENGTH):
        return None
    return f"mend gave {show(answer)}"


def _first(answer: Any) -> Any:
    return answer and answer[0]


def _is(value: Any, true: Any) -> bool:
    if type(true) is float:
        return type(value) is float and abs(value - true) < 1e-9
    return is_int(value) and value == true if is_int(true) else type(value) is str and value == true


MEND = Part(
    "15.3",
    "what failed, and the knob that mends it",
    2,
    ("mend",),
    _cases,
    probes.mend,
    (
        Property(
            "mend returns None, or what failed, a knob and its value",
            _shape,
            ('("pool too small", "max_model_len", 608), for example. The words are those of the text.',),
        ),
        Property(
            "nothing failed where the last start serves, and something did where it does not",
            _of(lambda answer, true: (answer is None) != (true is None)),
            (
                "A log may begin with a start that failed, and end with one that did not. Or the other way round.",
                'A start that succeeds also says "Free memory on device (…) on startup".',
            ),
        ),
        Property(
            "what failed is called by its name",
            _of(lambda answer, true: _first(answer) != _first(true)),
            ("Which words stand in each kind of message, and in none of the others?",),
        ),
        Property(
            "the knob is the one that mends this failure",
            _of(lambda answer, true: true is not None and answer[1] != true[1]),
            ("A length that fits can be had without more memory. What others hold cannot be had by a length.",),
        ),
        Property(
            "the value is the one of the log, or higher, or lower",
            _of(lambda answer, true: true is not None and not _is(answer[2], true[2])),
            (
                "What fits the log itself says, as a length. A share of the card is free / total.",
                "The highest share of two digits that fits: rounded up, it would not.",
            ),
        ),
    ),
)
