"""How much memory does the engine take, beyond what it must? And does it grow?

One process imports torch and triton; another loads the model, makes a pool and fills all of it with requests. The
difference of their peaks is set against weights plus pool. Then a third decodes for thousands of steps, requests coming
and going, with a tiny model (the code is the same, and a step takes a millisecond). Linux only: it asks the kernel.
"""

from __future__ import annotations

import json as json_module
import subprocess
import sys
from pathlib import Path
from typing import Any

from pagedlab.bench.machine import check_writable, keep, machine, machine_line
from pagedlab.errors import PagedlabError

MB = 1_000_000
BLOCKS = 513  # 512 of them for requests: with SmolLM2 in fp32 a pool of 378 MB

PEAK = """
def kilobytes(name):
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(name))
"""
IMPORTS = """\
import torch
try:
    import triton
except ImportError:  # it exists on Linux only
    pass
print(kilobytes("VmHWM"))"""
ENGINE = """\
from pagedlab import LLM, SamplingParams
llm = LLM({model!r}, num_gpu_blocks_override={blocks}, enable_prefix_caching=False)
each = min(1024, llm.max_model_len - 2)
for i in range(({blocks} - 1) * 16 // (each + 16)):
    llm.add_request([(7 * i + j) % 250 for j in range(each)], SamplingParams(max_tokens=4, ignore_eos=True))
while llm.has_unfinished_requests():
    llm.step()
llm.executor.kv_pool.data.add_(0)  # whatever no request came to use counts as pool all the same
print(kilobytes("VmHWM"), llm.executor.model.num_bytes, llm.executor.kv_pool.num_bytes)"""
STEPS = """\
from pagedlab import LLM, SamplingParams
llm = LLM("tiny-random", num_gpu_blocks_override=512)
done, number = 0, 0
while done < {steps} + 1000:
    while len(llm.requests) < 4:
        number += 1
        llm.add_request([number % 250, number // 250 % 250, 3], SamplingParams(max_tokens=300, ignore_eos=True))
    llm.step()
    done += 1
    if done == 1000:
        before = kilobytes("VmRSS")
print(before, kilobytes("VmRSS"))"""


def measure(model: str = "smollm2", steps: int = 10_000) -> dict[str, Any]:
    """Bytes. Raises PagedlabError where the system does not tell, or a process fails."""
    if steps < 1:
        raise PagedlabError(f"steps is {steps}; it must be at least 1.")
    if not Path("/proc/self/status").exists():
        raise PagedlabError("How much memory a process takes is asked of Linux, and this is another system.")
    (imports,) = _ask(IMPORTS)
    peak, weights, pool = _ask(ENGINE.format(model=model, blocks=BLOCKS))
    before, after = _ask(STEPS.format(steps=steps))
    taken = 1024 * (peak - imports)
    return {
        "benchmark": "memory",
        "model": model,
        "machine": machine(),
        "imports_bytes": 1024 * imports,
        "peak_bytes": 1024 * peak,
        "weights_bytes": weights,
        "pool_bytes": pool,
        # None: a model so small takes less than importing triton does.
        "taken_over_weights_and_pool": round(taken / (weights + pool), 3) if taken > 0 else None,
        "decode_steps": steps,
        "growth_bytes": 1024 * (after - before),
    }


def _ask(program: str) -> list[int]:
    done = subprocess.run([sys.executable, "-c", PEAK + program], capture_output=True, text=True)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        message = last.removeprefix("pagedlab.errors.PagedlabError: ")
        raise PagedlabError(message if message != last else f"A process that was to be watched failed: {last}")
    return [int(word) for word in done.stdout.split()]


def run(
    *, model: str = "smollm2", steps: int = 10_000, json: bool = False, out: Path | None = None
) -> dict[str, Any]:
    """Measure and print (a table, or one JSON object); keep the raw figures in `out`."""
    check_writable(out)
    result = measure(model, steps)
    keep(result, out)
    print(json_module.dumps(result) if json else _table(result))
    return result


def _table(result: dict[str, Any]) -> str:
    taken, ratio = result["peak_bytes"] - result["imports_bytes"], result["taken_over_weights_and_pool"]
    compared = "  the model is too small for a ratio: the imports alone take more" if ratio is None else (
        f"  the first over the second        {ratio:>8.2f}"
    )
    return "\n".join(
        [
            f"Memory, {result['model']}, fp32. {machine_line(result['machine'])}.",
            f"  torch and triton, imported       {result['imports_bytes'] / MB:>8.0f} MB",
            f"  peak of the engine, less that    {taken / MB:>8.0f} MB",
            f"  weights and pool                 {(result['weights_bytes'] + result['pool_bytes']) / MB:>8.0f} MB",
            compared,
            f"  growth in {result['decode_steps']:,} decode steps   {result['growth_bytes'] / MB:>8.1f} MB",
        ]
    )
