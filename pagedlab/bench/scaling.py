"""How does a step's cost grow, with the batch and with the context? And how much of it is not the model?

Time per decode step on a grid of batch (1 to 64) and context (64 to 4,096 tokens). K and V are random numbers in a pool
far larger than the processor's cache; where batch times context exceeds it, requests share blocks, which costs the
same. Then a real engine decodes, first plain and then with the recorder, and a stopwatch around the scheduler (with the
memory manager in it) and around everything that makes events says what share of a step they take.
"""

from __future__ import annotations

import json as json_module
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import torch

from pagedlab.attention import KVPool
from pagedlab.bench.machine import check_writable, keep, machine, machine_line
from pagedlab.engine import LLM, SamplingParams
from pagedlab.errors import PagedlabError
from pagedlab.executor import ScheduledRequest
from pagedlab.executor.runner import ModelRunner
from pagedlab.kv.block_table import BlockTable

BATCHES = (1, 2, 4, 8, 16, 32, 64)
CONTEXTS = (64, 128, 256, 512, 1024, 2048, 4096)
BLOCK_SIZE = 16
POOL_BYTES = 1 << 29
SHARES_PROMPT, SHARES_NEW = 64, 20  # tokens of a request whose steps are taken apart


def measure(
    model: str = "smollm2",
    batches: tuple[int, ...] = BATCHES,
    contexts: tuple[int, ...] = CONTEXTS,
    steps: int = 3,
) -> dict[str, Any]:
    """Seconds of a step by batch and context, and shares by batch. Raises PagedlabError for counts below 1."""
    if steps < 1:
        raise PagedlabError(f"steps is {steps}; it must be at least 1.")
    llm = LLM(model, device="cpu", dtype=torch.float32, num_gpu_blocks_override=2)
    if llm.max_model_len < SHARES_PROMPT + SHARES_NEW or min(contexts) > llm.max_model_len:
        raise PagedlabError(
            f"{llm.executor.model_config.name} has room for {llm.max_model_len} tokens; this takes a model of at least "
            f"{max(min(contexts), SHARES_PROMPT + SHARES_NEW)}."
        )
    contexts = tuple(c for c in contexts if c <= llm.max_model_len)
    return {
        "benchmark": "scaling",
        "model": llm.executor.model_config.name,
        "steps": steps,
        "machine": machine(),
        "step_seconds": _grid(llm.executor.model, batches, contexts, steps),
        "shares": [_shares(llm, batch, recorded) for batch in batches for recorded in (False, True)],
    }


def _grid(model: Any, batches: tuple[int, ...], contexts: tuple[int, ...], steps: int) -> list[dict[str, Any]]:
    c = model.config
    per_block = 2 * c.num_layers * c.num_kv_heads * c.head_size * 4 * BLOCK_SIZE
    pool = KVPool(c.num_layers, POOL_BYTES // per_block, BLOCK_SIZE, c.num_kv_heads, c.head_size)
    for layer in pool.data:  # one at a time: random numbers for all at once would need the memory twice
        layer.normal_()
    limits = {"max_num_seqs": max(batches), "max_num_batched_tokens": max(batches), "max_model_len": max(contexts)}
    runner = ModelRunner(model, pool, **limits)
    rng, points = Random(0), []
    for batch in batches:
        for context in contexts:
            tokens = [rng.randrange(c.vocab_size) for _ in range(context)]
            blocks = context // BLOCK_SIZE
            requests = [
                ScheduledRequest(str(r), tokens, context - 1, context, BlockTable(BLOCK_SIZE, ids))
                for r in range(batch)
                for ids in [rng.choices(range(1, pool.num_blocks), k=blocks)]
            ]
            for r, request in enumerate(requests):  # each writes into a block of its own
                request.table.block_ids[-1] = 1 + r
            runner.run(requests)
            seconds = sorted(_time(lambda requests=requests: runner.run(requests)) for _ in range(steps))
            points.append({"batch": batch, "context": context, "seconds": [round(s, 5) for s in seconds]})
    return points


def _shares(llm: LLM, batch: int, recorded: bool) -> dict[str, Any]:
    """Of a decode step of `batch` requests: the part of the scheduler, and of the recorder where it is on."""
    num_blocks = 2 + batch * 8
    engine = LLM(llm, record=recorded, num_gpu_blocks_override=num_blocks)
    vocab_size = llm.executor.model_config.vocab_size
    # One prompt for all: only the first is computed in full.
    prompt = [Random(1).randrange(vocab_size) for _ in range(SHARES_PROMPT)]
    for _ in range(batch):
        engine.add_request(prompt, SamplingParams(max_tokens=SHARES_NEW, ignore_eos=True))
    engine.step()
    watch = Stopwatch()
    watch.around(engine.scheduler, "schedule", "update_from_output")
    watch.around(engine.events, "emit", "scheduled", "written", "sampled")
    # One whole block of tokens: what happens once in a block counts too.
    steps = [_time(engine.step) for _ in range(BLOCK_SIZE)]
    result = {
        "batch": batch,
        "recorded": recorded,
        "step_seconds": round(sum(steps) / len(steps), 6),
        "scheduler": round(watch.seconds["scheduler"] / sum(steps), 5),
        "recorder": round(watch.seconds["events"] / sum(steps), 5),
    }
    while engine.has_unfinished_requests():
        engine.step()
    return result


class Stopwatch:
    """Seconds spent in some methods of some objects. A watched method that calls another one counts once."""

    def __init__(self) -> None:
        self.seconds = {"scheduler": 0.0, "events": 0.0}
        self._running = False

    def around(self, part: Any, *names: str) -> None:
        kind = "scheduler" if "schedule" in names else "events"
        for name in names:
            setattr(part, name, self._timed(getattr(part, name), kind))

    def _timed(self, method: Callable, kind: str) -> Callable:
        def timed(*args: Any, **kwargs: Any) -> Any:
            if self._running:
                return method(*args, **kwargs)
            self._running, started = True, time.perf_counter()
            try:
                return method(*args, **kwargs)
            finally:
                self.seconds[kind] += time.perf_counter() - started
                self._running = False

        timed.__qualname__, timed.__module__ = method.__qualname__, method.__module__  # events name their source
        return timed


def _time(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def run(
    *,
    model: str = "smollm2",
    steps: int = 3,
    html: Path | None = None,
    json: bool = False,
    out: Path | None = None,
) -> dict[str, Any]:
    """Measure and print (a table, or one JSON object); draw it into the page `html`; keep the raw figures in `out`."""
    for path in (out, html):
        check_writable(path)
    result = measure(model, steps=steps)
    keep(result, out)
    if html is not None:
        write_page(result, html)
    print(json_module.dumps(result) if json else _table(result))
    return result


def _table(result: dict[str, Any]) -> str:
    points = {(p["batch"], p["context"]): 1e3 * statistics.median(p["seconds"]) for p in result["step_seconds"]}
    contexts = sorted({context for _, context in points})
    lines = [
        f"Milliseconds of a decode step, {result['model']}, fp32. {machine_line(result['machine'])}.",
        f"{'batch':>6}" + "".join(f"{f'context {context}':>14}" for context in contexts),
    ]
    for batch in sorted({batch for batch, _ in points}):
        lines.append(f"{batch:>6}" + "".join(f"{points[batch, context]:>14.1f}" for context in contexts))
    lines.append("\nShare of a step that is not the model (context 64 to 80):")
    lines.append(f"{'batch':>6}{'scheduler':>14}{'with recorder: scheduler':>28}{'recorder':>12}")
    plain, recorded = ({s["batch"]: s for s in result["shares"] if s["recorded"] is on} for on in (False, True))
    for batch, share in plain.items():
        both = recorded[batch]
        lines.append(f"{batch:>6}{share['scheduler']:>14.2%}{both['scheduler']:>28.2%}{both['recorder']:>12.2%}")
    return "\n".join(lines)


def write_page(result: dict[str, Any], path: Path) -> None:
    """Both pictures in one file that needs nothing else: plotly is in it. Raises PagedlabError where it cannot be
    written."""
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    figure = make_subplots(
        rows=1, cols=2, subplot_titles=("time of a decode step, ms", "share of a step that is not the model, %")
    )
    contexts = sorted({p["context"] for p in result["step_seconds"]})
    for context in contexts:
        points = [p for p in result["step_seconds"] if p["context"] == context]
        y = [1e3 * statistics.median(p["seconds"]) for p in points]
        figure.add_trace(go.Scatter(x=[p["batch"] for p in points], y=y, name=f"context {context:,}"), row=1, col=1)
    for words, recorded, kinds in (
        ("scheduler", False, ("scheduler",)),
        ("scheduler and recorder", True, ("scheduler", "recorder")),
    ):
        shares = [s for s in result["shares"] if s["recorded"] is recorded]
        y = [100 * sum(s[kind] for kind in kinds) for s in shares]
        figure.add_trace(go.Scatter(x=[s["batch"] for s in shares], y=y, name=words), row=1, col=2)
    for column in (1, 2):
        figure.update_xaxes(title_text="requests in the batch", type="log", tickvals=list(BATCHES), row=1, col=column)
    figure.update_yaxes(type="log", row=1, col=1)
    figure.update_yaxes(rangemode="tozero", row=1, col=2)
    figure.update_layout(title=f"{result['model']}, fp32 · {machine_line(result['machine'])}", template="plotly_white")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.write_html(path, include_plotlyjs=True)
    except OSError as error:
        raise PagedlabError(f"{path} cannot be written: {error.strerror}.") from None
