"""What does it cost vLLM to be watched? A real decode, with and without, in turns, in one process.

Watched as a server is: the notes go out over ZeroMQ, and a reader in another process fetches and tells them. Needs
vLLM: `make vllm`, then `.venv-vllm/bin/python -m pagedlab bench watch`.
"""

from __future__ import annotations

import json as json_module
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pagedlab.bench.machine import check_writable, keep, machine, machine_line
from pagedlab.bench.vllm_engine import engine, weights
from pagedlab.errors import PagedlabError

BATCH, PROMPT_TOKENS = 16, 24


def measure(steps: int = 40, rounds: int = 3) -> dict[str, Any]:
    """Seconds of a decode step of 16 requests, and of that what the scheduler took (schedule and update_from_output),
    each step of every round. PagedlabError without vLLM."""
    if steps < 4 or rounds < 1:
        raise PagedlabError(f"steps is {steps} and rounds is {rounds}; there must be at least 4 steps, and 1 round.")
    core, of_core = _engine(steps)
    from pagedlab.watch.publish import Publisher

    found: dict[str, dict[str, list[float]]] = {name: {"step": [], "scheduler": []} for name in ("without", "watched")}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(rounds):
            for name, of_it in found.items():
                if name == "without":
                    _decode(core, of_core, steps, of_it)
                    continue
                address = f"ipc://{folder}/events"
                publisher = Publisher(core.scheduler, address)
                with _reader(address):
                    while not publisher._listeners:
                        time.sleep(0.05)
                    _decode(core, of_core, steps, of_it)
                publisher.close()
    medians = {
        name: {part: statistics.median(values) for part, values in of_it.items()} for name, of_it in found.items()
    }
    return {
        "benchmark": "watch",
        "machine": machine(),
        "batch": BATCH,
        "steps": steps,
        "rounds": rounds,
        "seconds": found,
        "medians": medians,
        "step_ratio": round(medians["watched"]["step"] / medians["without"]["step"], 4),
        "scheduler_ratio": round(medians["watched"]["scheduler"] / medians["without"]["scheduler"], 3),
        "scheduler_more_over_step": round(
            (medians["watched"]["scheduler"] - medians["without"]["scheduler"]) / medians["without"]["step"], 5
        ),
    }


def _engine(steps: int) -> tuple[Any, Any]:
    llm = engine(
        weights("smollm2"), enforce_eager=True, max_model_len=PROMPT_TOKENS + steps + 16, block_size=32,
        max_num_seqs=BATCH, enable_prefix_caching=True,
    )  # fmt: skip
    return llm.llm_engine.engine_core.engine_core, llm.llm_engine


def _decode(core: Any, engine: Any, steps: int, found: dict[str, list[float]]) -> None:
    """One batch from its prompts to its end; steps in which all of it decodes count."""
    from vllm import SamplingParams

    params = SamplingParams(temperature=0, max_tokens=steps + 2, ignore_eos=True)
    for i in range(BATCH):
        tokens = [100 + (i * 37 + k * 11) % 1000 for k in range(PROMPT_TOKENS)]
        engine.add_request(f"{i}", {"prompt_token_ids": tokens}, params)
    scheduler, taken = core.scheduler, [0.0]

    def timed(call: Callable) -> Callable:
        def run(*args: Any, **kwargs: Any) -> Any:
            started = time.perf_counter()
            result = call(*args, **kwargs)
            taken[0] += time.perf_counter() - started
            return result

        return run

    before = {name: vars(scheduler).get(name) for name in ("schedule", "update_from_output")}
    for name in before:
        setattr(scheduler, name, timed(getattr(scheduler, name)))
    try:
        while engine.has_unfinished_requests():
            taken[0], started = 0.0, time.perf_counter()
            engine.step()
            seconds, decoding = time.perf_counter() - started, len(scheduler.running) == BATCH
            if decoding and all(request.num_output_tokens > 1 for request in scheduler.running):
                found["step"].append(seconds)
                found["scheduler"].append(taken[0])
    finally:
        for name, hook in before.items():
            vars(scheduler).pop(name)
            if hook is not None:
                setattr(scheduler, name, hook)


def _reader(address: str) -> subprocess.Popen:
    command = [sys.executable, "-m", "pagedlab", "attach", address, "--seconds", "600"]

    class Reader(subprocess.Popen):
        def __exit__(self, *exception: Any) -> None:
            self.kill()
            super().__exit__(*exception)

    return Reader(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def run(*, steps: int = 40, rounds: int = 3, json: bool = False, out: Path | None = None) -> dict[str, Any]:
    """Measure and print (a table, or one JSON object); keep the raw figures in `out`."""
    check_writable(out)
    result = measure(steps, rounds)
    keep(result, out)
    print(json_module.dumps(result) if json else _table(result))
    return result


def _table(result: dict[str, Any]) -> str:
    lines = [f"vLLM decodes {result['batch']} requests; medians of all steps. {machine_line(result['machine'])}."]
    for name, of_it in result["medians"].items():
        step, scheduler = of_it["step"] * 1e3, of_it["scheduler"] * 1e6
        lines.append(f"  {name:<10}step {step:8.2f} ms, the scheduler's part of it {scheduler:6.0f} µs")
    ratio, more = result["scheduler_ratio"], result["scheduler_more_over_step"]
    return "\n".join([*lines, f"  Watched, the scheduler takes {ratio:.2f} times as long: {more:.2%} of a step more."])
