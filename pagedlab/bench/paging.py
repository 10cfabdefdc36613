"""What does paging cost? A decode step over the paged pool, and the same step over contiguous K and V.

Both are our own engine's step (`ModelRunner`: model, writing, attention), batch 16, in turns. The contiguous side has
each request's K and V in one run of memory, padded to nothing, in the layout that attention likes best, and reads it
where it lies, in two ways of which the quicker counts: by torch's products, and by the same attention as the paged
side, for which each request is then one large block. The paged side's blocks lie scattered over the pool in random
order: the worst case, and after some time of serving the usual one. K and V are random numbers, because what they say
does not change what they cost.
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
    sides = _sides(llama, context, steps)
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    difference = 0.0
    for n in range(steps + 1):
        logits = {}
        for name, step in sides.items():
            started = time.perf_counter()
            logits[name] = step(context + n)
            seconds[name].append(time.perf_counter() - started)
        paged = logits.pop("paged")
        difference = max(difference, *(float((paged - other).abs().max()) for other in logits.values()))
    seconds = {name: values[1:] for name, values in seconds.items()}  # the first step fills caches and buffers
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    paged = medians.pop("paged")
    best = min(medians, key=medians.__getitem__)
    return {
        "seconds": {name: [round(s, 5) for s in values] for name, values in seconds.items()},
        "best_contiguous": best,
        "ratio": round(paged / medians[best], 3),
        "largest_difference_of_logits": float(f"{difference:.2g}"),
    }


def _sides(llama: Any, context: int, steps: int) -> dict[str, Callable[[int], torch.Tensor]]:
    """Each a step, `length -> logits`, all over the same K and V."""
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
    rng = Random(1)
    tokens = [[rng.randrange(c.vocab_size) for _ in range(room)] for _ in range(BATCH)]

    def step(pool: Any, tables: list[BlockTable], *attention: Callable) -> Callable[[int], torch.Tensor]:
        runner = ModelRunner(llama, pool, *attention, **limits)
        return lambda length: runner.run(
            [
                ScheduledRequest(str(r), tokens[r][:length], length - 1, length, table)
                for r, table in enumerate(tables)
            ]
        )

    whole = [BlockTable(each * BLOCK_SIZE, [r]) for r in range(BATCH)]
    return {
        "paged": step(pool, [BlockTable(BLOCK_SIZE, table) for table in tables]),
        "products": step(own, whole, contiguous_attention),
        "one block": step(own, whole),
    }


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
        "Contiguous K and V are read by torch's products, and by our attention as one block a request.",
        f"{'context':>8}{'paged, ms':>12}{'products, ms':>15}{'one block, ms':>16}{'paged costs':>14}",
    ]
    for context, at in result["contexts"].items():
        ms = (1e3 * statistics.median(values) for values in at["seconds"].values())
        lines.append("{:>8}{:>12.1f}{:>15.1f}{:>16.1f}{:>13.2f}x".format(context, *ms, at["ratio"]))
    return "\n".join(lines)
