"""One long prompt comes to requests that decode: what does each budget of tokens per step cost whom?

The same run for each ``max_num_batched_tokens``: some requests decode, one token a step each; then a newcomer with a
long prompt arrives. While its prompt is computed, in chunks of what the others leave, each step is as long as its
tokens take. That is how long the others wait for their next token; the newcomer waits for its first one until the last
chunk is done.
"""

from __future__ import annotations

import json as json_module
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from pagedlab.bench.machine import check_writable, keep, machine, machine_line
from pagedlab.engine import LLM, SamplingParams
from pagedlab.errors import PagedlabError

BUDGETS = (64, 128, 256, 512, 1024, 2048, 4096, 8192)
NUM_DECODING, PROMPT, NEWCOMER = 6, 32, 1200  # requests that decode, their prompts' tokens, the newcomer's
LEAD = 3  # steps before it comes
ROUNDS = 3
MEASURED = Path(__file__).parent / "measured" / "budget.json"


@dataclass(frozen=True)
class Served:
    """``steps``: seconds of each step from the newcomer's arrival to its first token; in each of them every other
    request gets a token. ``before``: of the steps before it came. ``chunks``: the newcomer's tokens in each step."""

    steps: list[float]
    before: list[float]
    chunks: list[int]

    @property
    def first_token(self) -> float:
        """Seconds from the newcomer's arrival to its first token."""
        return sum(self.steps)

    @property
    def longest_gap(self) -> float:
        """Seconds that those who decode waited for a token, at most."""
        return max(self.steps)


def serve(
    base: LLM,
    budget: int,
    *,
    chunked: bool = True,
    newcomer: Sequence[int] | None = None,
    num_decoding: int = NUM_DECODING,
    **knobs: Any,
) -> tuple[LLM, Served]:
    """The run under one budget, on the weights of ``base``: the recorded engine as it stands when the newcomer has its
    first token, and the times. ``newcomer``: its token ids; None draws ``NEWCOMER`` of them. ``knobs``: others."""
    rng = Random(13)
    drawn = [[rng.randrange(5, 250) for _ in range(PROMPT)] for _ in range(num_decoding)]
    newcomer = [rng.randrange(5, 250) for _ in range(NEWCOMER)] if newcomer is None else list(newcomer)
    left = max(1, budget - num_decoding)  # of a step in which all decode
    most = (len(newcomer) + num_decoding * PROMPT) // left + LEAD + 8  # tokens: nobody is done before
    size = 16
    blocks = 1 + num_decoding * -(-(PROMPT + most) // size) + -(-(len(newcomer) + 8) // size)
    given = {"block_size": size, "num_gpu_blocks_override": blocks, "max_num_batched_tokens": budget}
    if not chunked:
        given["max_model_len"] = min(base.max_model_len, budget)
    llm = LLM(base, record=True, enable_chunked_prefill=chunked, **given | knobs)
    for prompt in drawn:
        llm.add_request(prompt, SamplingParams(max_tokens=most, ignore_eos=True))
    before, steps = [], []
    while not all(len(r.all_token_ids) > PROMPT for r in llm.requests.values()):
        llm.step()  # their prompts, which a small budget computes in several steps
    for _ in range(LEAD):
        before.append(_seconds(llm))
    name = llm.add_request(newcomer, SamplingParams(max_tokens=4, ignore_eos=True))
    written = []
    while len(llm.requests[name].all_token_ids) == len(newcomer):
        done = llm.requests[name].num_computed_tokens
        steps.append(_seconds(llm))
        written.append(llm.requests[name].num_computed_tokens - done)
    return llm, Served(steps, before, written)


def _seconds(llm: LLM) -> float:
    started = time.perf_counter()
    llm.step()
    return time.perf_counter() - started


def measure(model: str = "smollm2", budgets: Sequence[int] = BUDGETS, rounds: int = ROUNDS) -> dict[str, Any]:
    """Seconds under each budget, in turns. Raises PagedlabError for counts below 1 and budgets that leave the newcomer
    nothing."""
    if rounds < 1 or not budgets or min(budgets) <= NUM_DECODING:
        raise PagedlabError(
            f"rounds={rounds}, budgets={list(budgets)}: give at least one round, and budgets above {NUM_DECODING}, of "
            "which those who decode take that many."
        )
    base = LLM(model, num_gpu_blocks_override=2)
    if base.max_model_len < NEWCOMER + 8:
        raise PagedlabError(f"{model} takes {base.max_model_len} tokens at most; this needs {NEWCOMER + 8}.")
    serve(base, max(budgets))  # warms up whatever is lazy
    found: dict[str, list[dict[str, Any]]] = {str(budget): [] for budget in budgets}
    for _ in range(rounds):
        for budget in budgets:
            _, served = serve(base, budget)
            found[str(budget)].append(
                {
                    "first_token_seconds": round(served.first_token, 4),
                    "longest_gap_seconds": round(served.longest_gap, 4),
                    "median_gap_seconds": round(statistics.median(served.steps), 4),
                    "steps": len(served.steps),
                    "before_seconds": round(statistics.median(served.before), 4),
                }
            )
    return {
        "benchmark": "budget",
        "model": base.executor.describe()["model"],
        "decoding": NUM_DECODING,
        "newcomer_tokens": NEWCOMER,
        "rounds": rounds,
        "machine": machine(),
        "budgets": found,
    }


def stored() -> dict[str, Any]:
    """What ``measure`` gave when it was run for this course: :data:`MEASURED`."""
    return json_module.loads(MEASURED.read_text(encoding="utf-8"))


def medians(result: dict[str, Any]) -> dict[int, dict[str, float]]:
    """Of each budget, over its rounds."""
    return {
        int(budget): {name: statistics.median(one[name] for one in rounds) for name in rounds[0]}
        for budget, rounds in result["budgets"].items()
    }


def run(*, model: str = "smollm2", rounds: int = ROUNDS, json: bool = False, out: Path | None = None) -> dict[str, Any]:
    """Measure and print (a table, or one JSON object)."""
    check_writable(out)
    result = measure(model, rounds=rounds)
    keep(result, out)
    if json:
        print(json_module.dumps(result))
        return result
    print(f"{result['model']}; {machine_line(result['machine'])}; median of {rounds} rounds")
    print(f"{NUM_DECODING} requests decode, one with a prompt of {NEWCOMER} tokens comes")
    print(f"{'budget':>7} {'steps':>6} {'first token':>12} {'longest gap':>12} {'median gap':>11}")
    for budget, one in medians(result).items():
        first, longest, median = (one[f"{name}_seconds"] for name in ("first_token", "longest_gap", "median_gap"))
        print(f"{budget:>7} {one['steps']:>6.0f} {first:>10.2f} s {longest:>10.3f} s {median:>9.3f} s")
    return result
