"""Is the engine as fast as what people would use instead, and how far is it from what this machine could do?

Our engine, the others and the bound (`bound.py`) take turns on the same weights, in fp32, on the CPU, with the same
number of threads. The others are transformers or vLLM, each in two ways (`opponents.py`). Every round has prompts of
its own. What counts is the ratio of the medians.
"""

from __future__ import annotations

import contextlib
import json as json_module
import statistics
import time
from pathlib import Path
from typing import Any

import torch

from pagedlab.bench.answers import other_tokens
from pagedlab.bench.bound import BoundOf
from pagedlab.bench.machine import check_writable, keep, machine, machine_line
from pagedlab.bench.opponents import OPPONENTS, Side
from pagedlab.bench.workloads import WORKLOADS, Workload, check_room
from pagedlab.engine import LLM, SamplingParams
from pagedlab.errors import PagedlabError

SIDES = {
    "pagedlab": "pagedlab",
    "padded": "transformers, padded batch",
    "continuous": "transformers, continuous batching",
    "eager": "vLLM, eager",
    "compiled": "vLLM, compiled",
}
PAUSE = 0.3  # seconds before each turn: threads that wait for more work (OpenMP: for 0.2 s) would share its cores


def measure(
    model: str = "smollm2", cases: str = "abc", rounds: int = 3, against: str | None = "transformers"
) -> dict[str, Any]:
    """Seconds of every round by case and side, and what follows from them. Raises PagedlabError for unknown cases or
    opponents, and where transformers or vLLM is not installed."""
    _check(cases, rounds, against)
    llm = LLM(model, device="cpu", dtype=torch.float32)
    check_room(cases, llm.executor.model_config.name, llm.max_model_len)
    sides: dict[str, Side] = {"pagedlab": _ours(llm)}
    result: dict[str, Any] = {
        "benchmark": f"engine --against {against}" if against else "engine",
        "model": llm.executor.model_config.name,
        "rounds": rounds,
        "machine": machine(),
    }
    with contextlib.ExitStack() as stack:
        if against:
            theirs, about = OPPONENTS[against].start(model, llm, [WORKLOADS[name] for name in cases], stack)
            sides, result = sides | theirs, result | about
        result["cases"] = {name: _case(llm, sides, WORKLOADS[name], rounds) for name in cases}
    return result


def _check(cases: str, rounds: int, against: str | None) -> None:
    if not cases or set(cases) - set(WORKLOADS):
        raise PagedlabError(f"cases is {cases!r}; allowed are letters of {''.join(WORKLOADS)}, for example ab.")
    if rounds < 1:
        raise PagedlabError(f"rounds is {rounds}; it must be at least 1.")
    if against not in (None, *OPPONENTS):
        raise PagedlabError(f"against is {against!r}; allowed are {' and '.join(OPPONENTS)}, or leave it out.")
    if against:
        OPPONENTS[against].check()


def _ours(llm: LLM) -> Side:
    def run(prompts: list[list[int]], new: int) -> list[list[int]]:
        outputs = llm.generate(prompts, SamplingParams(max_tokens=new, ignore_eos=True))
        return [output.outputs[0].token_ids for output in outputs]

    return run


def _case(llm: LLM, sides: dict[str, Side], workload: Workload, rounds: int) -> dict[str, Any]:
    vocab_size = llm.executor.model_config.vocab_size
    bound = BoundOf(llm.executor.model, workload)
    small = Workload("warm", "", (8, 9), 2)
    for side in sides.values():
        side(small.prompts(vocab_size, 0), small.new)
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    others = [name for name in sides if name != "pagedlab"]
    bounds, unlike, wrong = [], dict.fromkeys(others, 0), dict.fromkeys(others, 0)
    for n in range(rounds):
        prompts, answers = workload.prompts(vocab_size, n), {}
        for name, side in sides.items():
            time.sleep(PAUSE)
            started = time.perf_counter()
            answers[name] = side(prompts, workload.new)
            seconds[name].append(time.perf_counter() - started)
        bounds.append(bound.measure())
        for name in others:
            found = other_tokens(llm.executor.model, prompts, answers["pagedlab"], answers[name])
            unlike[name], wrong[name] = unlike[name] + found[0], wrong[name] + found[1]
    return _figures(workload, seconds, bounds, unlike, wrong)


def _figures(workload: Workload, seconds: dict, bounds: list, unlike: dict, wrong: dict) -> dict[str, Any]:
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    bound = statistics.median(b.seconds for b in bounds)
    answers = len(bounds) * len(workload.lengths)
    parts = ("prefill_products", "prefill_attention", "decode_products", "decode_attention")
    return {
        "words": workload.words,
        "new_tokens": workload.num_new_tokens,
        "seconds": {name: [round(s, 4) for s in values] for name, values in seconds.items()},
        "bound_seconds": [round(b.seconds, 4) for b in bounds],
        "bound_parts": {part: round(statistics.median(getattr(b, part) for b in bounds), 5) for part in parts},
        "bound_forms": bounds[0].forms,
        "tokens_per_second": {name: round(workload.num_new_tokens / s, 2) for name, s in medians.items()},
        "of_bound": round(bound / medians["pagedlab"], 3),
        "times_faster": {name: round(medians[name] / medians["pagedlab"], 2) for name in unlike},
        "same_answers": {name: f"{answers - n} of {answers}" for name, n in unlike.items()},
        "wrong_answers": wrong,  # those that part where our logits are no near tie
    }


def run(
    *,
    model: str = "smollm2",
    cases: str = "abc",
    rounds: int = 3,
    against: str | None = "transformers",
    json: bool = False,
    out: Path | None = None,
) -> dict[str, Any]:
    """Measure and print (a table, or one JSON object); keep the raw figures in `out`."""
    check_writable(out)
    started = time.perf_counter()
    result = measure(model, cases, rounds, against)
    result["wall_seconds"] = round(time.perf_counter() - started, 1)
    keep(result, out)
    print(json_module.dumps(result) if json else _table(result))
    return result


def _table(result: dict[str, Any]) -> str:
    lines = [f"{result['model']}, fp32. {machine_line(result['machine'])}. Medians of {result['rounds']} rounds."]
    if "transformers" in result:
        lines[0] += f" transformers {result['transformers']}."
    for kind, about in result.get("vllm", {}).items():
        lines.append(
            f"vLLM {about['vllm']}, {kind}: torch {about['torch']}, {about['threads']} threads, blocks of "
            f"{about['block_size']}. It took {about['start_seconds']:.0f} s to start, which is in no figure below."
        )
    for name, case in result["cases"].items():
        lines.append(f"\n({name}) {case['words']}")
        for side, rate in case["tokens_per_second"].items():
            row = f"  {SIDES[side]:<36}{rate:>9.1f} tokens/s"
            if side in case["times_faster"]:
                row += f"   ours is {case['times_faster'][side]:.2f} times as fast ({case['same_answers'][side]} equal)"
            lines.append(row)
        bound = case["new_tokens"] / statistics.median(case["bound_seconds"])
        lines.append(f"  {'this machine: products and attention':<36}{bound:>9.1f} tokens/s")
        lines.append(f"  {'ours, of that bound':<36}{100 * case['of_bound']:>8.0f} %")
        lines += [
            f"  {wrong} answers of {SIDES[side]} have another token that is no near tie: do not trust these figures."
            for side, wrong in case["wrong_answers"].items()
            if wrong
        ]
    return "\n".join(lines)
