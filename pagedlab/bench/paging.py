"""What does paging cost? A decode step over the paged pool, and the same step over contiguous K and V.

Both are our own engine's step (`ModelRunner`: model, writing, attention), batch 16, in turns. The contiguous side has
each request's K and V in one run of memory, padded to nothing, in the layout that attention likes best, and reads it
where it lies. The paged side's blocks lie scattered over the pool in random order: the worst case, and after some time
of serving the usual one. K and V are random numbers, because what they say does not change what they cost.
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

from pagedlab.attention import KVPool, LayerKV
from pagedlab.attention.torch_backend import Plan
from pagedlab.bench.machine import check_writable, keep, machine, machine_line
from pagedlab.errors import PagedlabError
from pagedlab.executor import ScheduledRequest
from pagedlab.executor.runner import ModelRunner
from pagedlab.kv.block_table import BlockTable
from pagedlab.model.weights import load_model

BATCH, BLOCK_SIZE = 16, 16
CONTEXTS = (512, 1024)


class ContiguousKV:
    """Stands where the pool does: one "block" per request, as long as a request may become, each head's tokens one
    after the other (HND)."""

    def __init__(self, like: KVPool, requests: int, tokens: int) -> None:
        self.block_size = tokens
        shape = (like.num_layers, 2, requests, like.num_kv_heads, tokens, like.head_size)
        self.data = torch.randn(shape, dtype=like.dtype)
        self._layers = [LayerKV(k.transpose(1, 2), v.transpose(1, 2)) for k, v in self.data]

    def layer(self, index: int) -> LayerKV:
        return self._layers[index]


def contiguous_attention(query, layer, block_tables, seq_lens, query_start_loc):
    """One new token for each request, all of one length: two products and a softmax, nothing is copied."""
    context = int(seq_lens[0])
    key, value = (t[:, :context].transpose(1, 2) for t in (layer.key, layer.value))
    grouped = query.view(len(query), key.shape[1], -1, query.shape[-1])
    score = (grouped * query.shape[-1] ** -0.5) @ key.transpose(-1, -2)
    return (score.softmax(-1) @ value).reshape(query.shape)


def measure(model: str = "smollm2", contexts: tuple[int, ...] | None = None, steps: int = 7) -> dict[str, Any]:
    """Seconds of each step on both sides. ``contexts``: None takes 512 and 1,024 tokens, or half and all of what a
    smaller model has room for. Raises PagedlabError for counts below 1 and contexts beyond the model's."""
    llama, _ = load_model(model)
    name, most = llama.config.name, llama.config.max_model_len
    if not 1 <= steps <= most - 2:
        raise PagedlabError(f"steps is {steps}; allowed are 1 to {most - 2}: {name} has room for {most} tokens.")
    room = most - steps  # every step makes the context longer by one token
    if contexts is None:
        contexts = CONTEXTS if room >= max(CONTEXTS) else (room // 2, room)
    if not contexts or min(contexts) < 1 or max(contexts) > room:
        raise PagedlabError(
            f"contexts are {contexts}; allowed are 1 to {room}: {name} has room for {most} tokens, and {steps} steps "
            "make a context longer by as many."
        )
    found = {str(context): _at(llama, context, steps) for context in contexts}
    return {
        "benchmark": "paging",
        "model": llama.config.name,
        "batch": BATCH,
        "block_size": BLOCK_SIZE,
        "machine": machine(),
        "contexts": found,
    }


@torch.inference_mode()
def _at(llama: Any, context: int, steps: int) -> dict[str, Any]:
    paged, contiguous, pool, tables = _sides(llama, context, steps)
    seconds: dict[str, list[float]] = {"paged": [], "contiguous": []}
    difference = 0.0
    for n in range(steps + 1):
        length = context + n
        started = time.perf_counter()
        one = paged(length)
        middle = time.perf_counter()
        other = contiguous(length)
        ended = time.perf_counter()
        difference = max(difference, float((one - other).abs().max()))
        if n:  # the first one fills caches and buffers
            seconds["paged"].append(middle - started)
            seconds["contiguous"].append(ended - middle)
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    return {
        "seconds": {name: [round(s, 5) for s in values] for name, values in seconds.items()},
        "ratio": round(medians["paged"] / medians["contiguous"], 3),
        "largest_difference_of_logits": float(f"{difference:.2g}"),
        "gathering_seconds": round(_gathering(pool, tables, context), 5),
    }


def _sides(llama: Any, context: int, steps: int) -> tuple[Callable, Callable, KVPool, list[list[int]]]:
    """(paged step, contiguous step), each `length -> logits`, over the same K and V."""
    c, room = llama.config, context + steps
    each = -(-room // BLOCK_SIZE)
    pool = KVPool(c.num_layers, 1 + BATCH * each, BLOCK_SIZE, c.num_kv_heads, c.head_size)
    own = ContiguousKV(pool, BATCH, each * BLOCK_SIZE)
    ids = list(range(1, 1 + BATCH * each))
    Random(0).shuffle(ids)
    tables = [ids[r * each : (r + 1) * each] for r in range(BATCH)]
    for r, table in enumerate(tables):  # [layers, 2, KV heads, tokens, head size] -> blocks of tokens
        pool.data[:, :, table] = own.data[:, :, r].transpose(2, 3).unflatten(2, (each, BLOCK_SIZE))
    limits = {"max_num_seqs": BATCH, "max_num_batched_tokens": BATCH, "max_model_len": each * BLOCK_SIZE}
    paged = ModelRunner(llama, pool, **limits)
    contiguous = ModelRunner(llama, own, contiguous_attention, **limits)
    rng = Random(1)
    tokens = [[rng.randrange(c.vocab_size) for _ in range(room)] for _ in range(BATCH)]

    def step(runner: ModelRunner, tables: list[BlockTable]) -> Callable[[int], torch.Tensor]:
        return lambda length: runner.run(
            [
                ScheduledRequest(str(r), tokens[r][:length], length - 1, length, table)
                for r, table in enumerate(tables)
            ]
        )

    return (
        step(paged, [BlockTable(BLOCK_SIZE, table) for table in tables]),
        step(contiguous, [BlockTable(each * BLOCK_SIZE, [r]) for r in range(BATCH)]),
        pool,
        tables,
    )


def _gathering(pool: KVPool, tables: list[list[int]], context: int) -> float:
    """Seconds that one step spends on bringing blocks together, all layers: what contiguous memory does not need."""
    lengths = torch.full((len(tables),), context, dtype=torch.int32)
    starts = torch.arange(len(tables) + 1, dtype=torch.int32)
    plan = Plan(pool.layer(0), torch.tensor(tables, dtype=torch.int32), lengths, starts)
    times = []
    for _ in range(3):
        started = time.perf_counter()
        for i in range(pool.num_layers):
            for _, place in plan.decodes:
                place.read(pool.layer(i))
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def run(
    *, model: str = "smollm2", steps: int = 7, json: bool = False, out: Path | None = None
) -> dict[str, Any]:
    """Measure and print (a table, or one JSON object); keep the raw figures in `out`."""
    check_writable(out)
    result = measure(model, steps=steps)
    keep(result, out)
    print(json_module.dumps(result) if json else _table(result))
    return result


def _table(result: dict[str, Any]) -> str:
    lines = [
        f"A decode step of {result['batch']} requests, {result['model']}, fp32, blocks of {result['block_size']} "
        f"scattered over the pool. {machine_line(result['machine'])}.",
        f"{'context':>8}{'paged, ms':>12}{'contiguous, ms':>17}{'paged costs':>14}{'of it gathering, ms':>22}",
    ]
    for context, at in result["contexts"].items():
        paged, contiguous = (1e3 * statistics.median(at["seconds"][name]) for name in ("paged", "contiguous"))
        lines.append(
            f"{context:>8}{paged:>12.1f}{contiguous:>17.1f}{at['ratio']:>13.2f}x{1e3 * at['gathering_seconds']:>22.1f}"
        )
    return "\n".join(lines)
