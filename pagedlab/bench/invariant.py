"""What does the same answer in every batch cost?  A request's logits, kept; and decode steps of both modes, timed."""

from __future__ import annotations

import statistics
import time
from typing import Any

from pagedlab.engine import LLM, SamplingParams


def keep_logits(llm: LLM, request_id: str = "A") -> dict[int, Any]:
    """From now on, the logits of this request: tokens that were computed so far -> float32 tensor [vocabulary].

    The dictionary fills as the engine runs, whatever else is in its batches.
    """
    kept: dict[int, Any] = {}
    runner = llm.executor.runner
    run = runner.run

    def watched(batch: list, *rest: Any) -> Any:
        logits = run(batch, *rest)
        kept.update({p.end: logits[row].clone() for row, p in enumerate(batch) if p.request_id == request_id})
        return logits

    runner.run = watched
    return kept


def decode_seconds(llm: LLM, prompts: list[list[int]], steps: int) -> list[float]:
    """Seconds of each decode step of these prompts together (the step that computes the prompts is left out)."""
    for prompt in prompts:
        llm.add_request(prompt, SamplingParams(max_tokens=steps + 1, ignore_eos=True))
    llm.step()
    seconds = []
    while llm.has_unfinished_requests():
        start = time.perf_counter()
        llm.step()
        seconds.append(time.perf_counter() - start)
    return seconds


def price(base: LLM, requests: int, *, tokens: int = 1, steps: int = 4, rounds: int = 3) -> tuple[float, float]:
    """(ordinary, batch-invariant): seconds of a decode step with so many requests of ``tokens`` tokens each, on the
    weights of ``base``. Medians of ``rounds`` that alternate, in one run."""
    prompts = [[(31 * i + 7 * j) % 1000 + 1 for j in range(tokens)] for i in range(requests)]
    engines = [
        LLM(base, batch_invariant=mode, num_gpu_blocks_override=256, enable_prefix_caching=False)
        for mode in (False, True)
    ]
    seconds: list[list[float]] = [[], []]
    for engine in engines:  # the first run of a model is never like the others
        decode_seconds(engine, prompts[:1], 1)
    for _ in range(rounds):
        for engine, into in zip(engines, seconds, strict=True):
            into += decode_seconds(engine, prompts, steps)
    ordinary, invariant = (statistics.median(of) for of in seconds)
    return ordinary, invariant
