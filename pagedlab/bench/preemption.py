"""Swap or recompute: what does each cost on this machine, and can it be predicted?

First the constants of the cost model (``pagedlab.kv.swap``) are measured: a few round trips of blocks between the
device and the CPU's memory, and a few prefills. Then other lengths and block sizes are predicted and measured, side by
side. Last, one workload that is too large for its pool runs under both.

On a CPU "the device" is main memory too, so a swap is a copy from memory to memory, and the prefill is slow: swapping
wins by far. On a GPU the copy goes over the bus and the prefill is quick. And it matters how blocks are copied: our
engine gathers them and moves them as one; vLLM v0.2.0 started one transfer for each block of each layer, K and V apart,
so that small blocks meant many small transfers (the paper's section 7.3). Both are measured.
"""

from __future__ import annotations

import json as json_module
import math
import time
import warnings
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import numpy as np
import torch

from pagedlab.attention import KVPool
from pagedlab.engine import LLM, SamplingParams
from pagedlab.errors import PagedlabError
from pagedlab.executor import Draw, SamplingMetadata, ScheduledRequest
from pagedlab.executor.swap_space import SwapSpace
from pagedlab.kv.block_table import BlockTable
from pagedlab.kv.swap import RecomputeCost, SwapCost, cheaper, crossover
from pagedlab.model.llama import LlamaModel

CALIBRATE_SWAP = [(32, 16), (512, 16), (512, 1), (128, 4), (256, 64), (768, 256)]  # (tokens, block size)
CALIBRATE_PREFILL = [16, 128, 384]  # tokens
LENGTHS, BLOCK_SIZES = [64, 256, 512], [1, 8, 16, 128]  # what is predicted
ROUNDS_SWAP, ROUNDS_PREFILL = 9, 3
LEAST_SHARE = 0.03  # of a measured time; what is below differs as much from one round to the next

Copy = Callable[[torch.Tensor, torch.Tensor, list[tuple[int, int]]], None]


def run(*, model: str = "smollm2", device: str | None = None, json: bool = False) -> dict[str, Any]:
    """Measure, predict, and print (a table, or one JSON object)."""
    started = time.perf_counter()
    base = LLM(model, device=device, num_gpu_blocks_override=2)
    longest = max(LENGTHS + CALIBRATE_PREFILL)
    if base.max_model_len < longest:
        raise PagedlabError(f"{model} takes at most {base.max_model_len} tokens; this benchmark needs {longest}.")
    _prefill_seconds(base, 16)  # warms up whatever is lazy
    swap, piecewise = measure_swap_cost(base), measure_swap_cost(base, copy=one_by_one)
    recompute = measure_recompute_cost(base)
    measured_recompute = {n: _prefill_seconds(base, n) for n in LENGTHS}
    rows = []
    for num_tokens in LENGTHS:
        for block_size in BLOCK_SIZES:
            measured = _swap_seconds(base, num_tokens, block_size, None)
            rows.append(
                {
                    "tokens": num_tokens,
                    "block_size": block_size,
                    "swap_predicted": swap.seconds(num_tokens, block_size),
                    "swap_measured": measured,
                    "one_by_one_predicted": piecewise.seconds(num_tokens, block_size),
                    "one_by_one_measured": _swap_seconds(base, num_tokens, block_size, one_by_one),
                    "recompute_predicted": recompute.seconds(num_tokens),
                    "recompute_measured": measured_recompute[num_tokens],
                    "predicted": cheaper(swap, recompute, num_tokens, block_size),
                    "measured": "swap" if measured <= measured_recompute[num_tokens] else "recompute",
                    "one_by_one_cheaper": cheaper(piecewise, recompute, num_tokens, block_size),
                }
            )
    result = {
        "benchmark": "preemption",
        **{name: base.executor.describe()[name] for name in ("model", "device", "dtype")},
        "threads": torch.get_num_threads(),
        "bytes_per_token": swap.bytes_per_token,
        # None: not separable, see `separated`.
        "bytes_per_second": separated(swap.bytes_per_second),
        "seconds_per_block": separated(swap.seconds_per_block),
        "seconds_per_move": separated(swap.seconds_per_move),
        "one_by_one_bytes_per_second": separated(piecewise.bytes_per_second),
        "one_by_one_seconds_per_block": separated(piecewise.seconds_per_block),
        "one_by_one_seconds_per_move": separated(piecewise.seconds_per_move),
        "prefill_tokens_per_second": separated(recompute.tokens_per_second),
        "seconds_per_step": separated(recompute.seconds_per_step),
        "seconds_per_pair": separated(recompute.seconds_per_pair),
        "rows": rows,
        # From which length on the other way is the cheaper one (None: one of them is at every length).
        "crossover": {size: crossover(swap, recompute, size, base.max_model_len) for size in BLOCK_SIZES},
        "one_by_one_crossover": {
            size: crossover(piecewise, recompute, size, base.max_model_len) for size in BLOCK_SIZES
        },
        # The prefill rate from which on recomputing a long sequence would cost less than swapping it.
        "break_even_tokens_per_second": {size: longest / swap.seconds(longest, size) for size in BLOCK_SIZES},
        "one_by_one_break_even_tokens_per_second": {
            size: longest / piecewise.seconds(longest, size) for size in BLOCK_SIZES
        },
        "workload": {how: _overload(base, how) for how in ("swap", "recompute")},
    }
    result["seconds"] = round(time.perf_counter() - started, 1)
    print(json_module.dumps(result) if json else _table(result))
    return result


# ---------------------------------------------------------------------------------------------- the constants


def measure_swap_cost(llm: LLM, copy: Copy | None = None) -> SwapCost:
    """Of this model's blocks, between this device and the CPU's memory. ``copy``: how they are copied, between two
    pools of torch's (None: as the engine does it)."""
    bytes_per_token = llm.executor.kv_pool.bytes_per_token
    rows, seconds = [], []
    for num_tokens, block_size in CALIBRATE_SWAP:
        blocks = -(-num_tokens // block_size)
        rows.append([1.0, blocks, blocks * block_size * bytes_per_token])
        seconds.append(_swap_seconds(llm, num_tokens, block_size, copy) / 2)
    per_move, per_block, per_byte = fit(rows, seconds)
    return SwapCost(bytes_per_token, 1 / per_byte if per_byte else math.inf, per_block, per_move)


def measure_recompute_cost(llm: LLM) -> RecomputeCost:
    """Of a prefill by this model on this device."""
    rows = [[1.0, n, n * (n + 1) / 2] for n in CALIBRATE_PREFILL]
    per_step, per_token, per_pair = fit(rows, [_prefill_seconds(llm, n) for n in CALIBRATE_PREFILL])
    return RecomputeCost(1 / per_token if per_token else math.inf, per_step, per_pair)


def separated(price: float) -> float | None:
    """A price of a cost model as :func:`fit` found it, or None where it found none.

    Prices are told apart by differences of times, and on a busy machine such a difference may be noise. Then the price
    is left out (0 seconds, or an infinite rate) and the others carry its share: not separable."""
    return price if 0 < price < math.inf else None


def price_text(price: float, form: str, unit: str, scale: float = 1.0) -> str:
    """A price in words: ``price_text(5.8e9, ".1f", "GB/s", 1e-9)`` is "5.8 GB/s", or "not separable"."""
    return "not separable" if separated(price) is None else f"{price * scale:{form}} {unit}"


def fit(rows: list[list[float]], seconds: list[float]) -> list[float]:
    """What each column costs, by least squares of the relative error. A column that comes out below zero, or that makes
    up less than ``LEAST_SHARE`` of each of the times, cannot be told from noise and costs 0."""
    matrix = np.array(rows) / np.array(seconds)[:, None]
    columns = list(range(matrix.shape[1]))
    while True:
        found, *_ = np.linalg.lstsq(matrix[:, columns], np.ones(len(rows)), rcond=None)
        shares = (matrix[:, columns] * found).max(axis=0)  # where it matters most
        if shares.min() >= LEAST_SHARE or len(columns) == 1:
            break
        del columns[int(shares.argmin())]
    costs = [0.0] * matrix.shape[1]
    for column, cost in zip(columns, found, strict=True):
        costs[column] = float(max(cost, 0.0))
    return costs


def one_by_one(origin: torch.Tensor, target: torch.Tensor, pairs: list[tuple[int, int]]) -> None:
    """Each block of each layer by itself, K and V apart, as vLLM v0.2.0 did (``csrc/cache_kernels.cu``,
    ``swap_blocks``)."""
    for layer_from, layer_to in zip(origin.flatten(0, 1), target.flatten(0, 1), strict=True):
        for old, new in pairs:
            layer_to[new].copy_(layer_from[old], non_blocking=True)


def _swap_seconds(llm: LLM, num_tokens: int, block_size: int, copy: Copy | None) -> float:
    """Out and in again, blocks scattered over both pools."""
    blocks = -(-num_tokens // block_size)
    rng = Random(0)
    ids = range(1, 2 * blocks + 1)
    pairs = list(zip(rng.sample(ids, blocks), rng.sample(ids, blocks), strict=True))
    back = [(new, old) for old, new in pairs]
    if copy is None:
        knobs = {"num_gpu_blocks_override": 2 * blocks + 1, "num_cpu_blocks_override": 2 * blocks + 1}
        executor = LLM(llm, era="paper", preemption="swap", block_size=block_size, **knobs).executor
        moves = (lambda: executor.swap_out(pairs), lambda: executor.swap_in(back))
    else:
        pool = _pool(llm.executor.model, 2 * blocks + 1, block_size)
        pool.data.normal_()  # pages that nobody has written yet are not really there
        space = SwapSpace(pool, 2 * blocks + 1)
        moves = (lambda: copy(pool.data, space.data, pairs), lambda: copy(space.data, pool.data, back))

    def there_and_back() -> None:
        for move in moves:
            move()

    there_and_back()  # the first one finds its pages
    return _seconds(there_and_back, llm.executor.model.device, ROUNDS_SWAP)


def _pool(model: LlamaModel, num_blocks: int, block_size: int) -> KVPool:
    c = model.config
    return KVPool(c.num_layers, num_blocks, block_size, c.num_kv_heads, c.head_size, model.dtype, model.device)


def _prefill_seconds(llm: LLM, num_tokens: int) -> float:
    block_size = 16
    blocks = -(-num_tokens // block_size)
    knobs = {"max_num_seqs": 1, "max_num_batched_tokens": num_tokens, "num_gpu_blocks_override": blocks + 1}
    executor = LLM(llm, block_size=block_size, **knobs).executor
    rng = Random(0)
    tokens = [rng.randrange(executor.model_config.vocab_size) for _ in range(num_tokens)]
    part = ScheduledRequest("A", tokens, 0, num_tokens, BlockTable(block_size, range(1, blocks + 1)))
    first_token = SamplingMetadata([Draw(row=0, position=num_tokens, seed=0)])

    def prefill() -> None:
        executor.collect(executor.submit([part], first_token))  # to collect is to wait

    prefill()  # the first of a shape may compile something
    return _seconds(prefill, executor.model.device, ROUNDS_PREFILL)


def _seconds(work: Callable[[], Any], device: torch.device, rounds: int) -> float:
    """The quickest of ``rounds``: other programs only add."""
    times = []
    for _ in range(rounds):
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        started = time.perf_counter()
        work()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        times.append(time.perf_counter() - started)
    return min(times)


# --------------------------------------------------------------------------------- a workload that does not fit


def _overload(base: LLM, preemption: str) -> dict[str, Any]:
    """Four requests of 5 to 6 blocks each, in a pool of 18: some have to make room for others."""
    rng = Random(1)
    prompts = [[rng.randrange(base.executor.model_config.vocab_size) for _ in range(64)] for _ in range(4)]
    llm = LLM(
        base,
        record=True,
        era="paper",
        preemption=preemption,
        num_gpu_blocks_override=18,
        block_size=16,
        max_model_len=128,
    )
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outputs = llm.generate(prompts, SamplingParams(max_tokens=24, ignore_eos=True))
    seconds = time.perf_counter() - started
    return {"seconds": seconds, "tokens": [o.outputs[0].token_ids for o in outputs]} | work_done(llm)


PROMPTS = (
    "A lighthouse keeper counts the ships that pass at night and writes",
    "Bread needs flour, water, salt and time; most people forget",
    "Seven mountains stand around the lake, and on each",
    "When the power fails, the first thing to do is",
    "The three rules of a good kitchen are",
)


def overload(
    base: LLM | str = "smollm2",
    preemption: str = "recompute",
    prompts: Sequence[Any] = PROMPTS,
    *,
    max_tokens: int = 16,
    num_blocks: int = 18,
    block_size: int = 4,
    **knobs: Any,
) -> LLM:
    """A recording engine with ``prompts`` queued and no step run, whose pool has ``num_blocks`` blocks to hand out: all
    get in, and not all can stay.

    ``preemption``: "recompute" is V1, "swap" the paper's era, the last one that had it. ``knobs``: other knobs and
    parts, as ``LLM`` takes them. Raises PagedlabError for a request that could never run in such a pool.
    """
    era = {"num_gpu_blocks_override": num_blocks + 1}  # V1 keeps block 0 for itself
    if preemption == "swap":
        era = {"num_gpu_blocks_override": num_blocks, "era": "paper", "preemption": "swap"}
    llm = LLM(base, record=True, block_size=block_size, **era | knobs)
    for prompt in prompts:
        llm.add_request(prompt, SamplingParams(max_tokens=max_tokens, ignore_eos=True))
    return llm


def run_out(llm: LLM) -> LLM:
    """Step until all requests are done. Returns the engine."""
    while llm.has_unfinished_requests():
        llm.step()
    return llm


def work_done(llm: LLM) -> dict[str, int]:
    """From a recorded run: preemptions, tokens computed more than once, tokens that came back as prefix hits instead,
    and bytes moved by swaps and copies."""
    events = llm.trace.events
    moved = sum(len(e.gpu_block_ids) for e in events if e.kind in ("blocks_swapped_out", "blocks_swapped_in"))
    written = [(e.request_id, e.position) for e in events if e.kind == "slot_written"]
    away: set[str] = set()  # whose blocks were given back
    found = 0
    for e in events:
        if e.kind == "request_preempted" and e.how == "recompute":
            away.add(e.request_id)
        elif e.kind == "request_admitted" and e.request_id in away:
            away.remove(e.request_id)
            found += e.num_computed_tokens
    return {
        "preemptions": sum(e.kind == "request_preempted" for e in events),
        "recomputed_tokens": len(written) - len(set(written)),
        "found_tokens": found,
        "swapped_bytes": moved * llm.executor.kv_pool.bytes_per_block,
        "copied_bytes": sum(e.kind == "block_copied" for e in events) * llm.executor.kv_pool.bytes_per_block,
    }


def longest_pause(llm: LLM) -> int:
    """From a recorded run: the most steps that anybody waited from one token of an answer to the next (1: nobody ever
    paused)."""
    step, last, longest = 0, {}, 0
    for e in llm.trace.events:
        if e.kind == "step_started":
            step = e.step
        elif e.kind == "token_sampled":
            longest = max(longest, step - last.get(e.request_id, step))
            last[e.request_id] = step
    return longest


def _table(r: dict[str, Any]) -> str:
    lines = [
        f"Swap or recompute: {r['model']}, {r['dtype']}, on {r['device']} ({r['threads']} threads); "
        f"{r['bytes_per_token']:,} bytes a "
        f"token. Took {r['seconds']} s.",
        "Measured (not separable: too little to be told apart from the others on this machine, now):",
        *(
            f"  {name:<12}{_price(r, f'{key}bytes_per_second', ',.2f', 'GB/s', 1e-9)} to copy, each way; "
            f"for each block {_price(r, f'{key}seconds_per_block', ',.2f', 'µs', 1e6)}; "
            f"for each move {_price(r, f'{key}seconds_per_move', ',.2f', 'µs', 1e6)}"
            for name, key in (("swap", ""), ("one by one", "one_by_one_"))
        ),
        f"  {'recompute':<12}{_price(r, 'prefill_tokens_per_second', ',.0f', 'tokens/s')}; "
        f"for each step {_price(r, 'seconds_per_step', ',.1f', 'ms', 1e3)}; "
        f"for each pair of tokens {_price(r, 'seconds_per_pair', ',.1f', 'ns', 1e9)}",
        "",
        "Out and in again, or computed again, in ms: predicted from these figures, then measured.",
        f"{'':>8}{'block':>7}{'swap':>18}{'one by one':>18}{'recompute':>20}   the cheaper one (with one by one)",
        f"{'tokens':>8}{'size':>7}"
        + f"{'pred.':>9}{'meas.':>9}" * 2
        + f"{'pred.':>10}{'meas.':>10}   predicted              measured",
    ]
    for row in r["rows"]:
        ms = [1000 * row[f"{way}_{k}"] for way in ("swap", "one_by_one") for k in ("predicted", "measured")]
        again = [1000 * row[f"recompute_{k}"] for k in ("predicted", "measured")]
        piecewise = "swap" if row["one_by_one_measured"] <= row["recompute_measured"] else "recompute"
        lines.append(
            f"{row['tokens']:>8}{row['block_size']:>7}"
            + "".join(f"{x:>9.2f}" for x in ms)
            + "".join(f"{x:>10.2f}" for x in again)
            + f"   {row['predicted']:<10}({row['one_by_one_cheaper'] + ')':<10}  {row['measured']:<10}({piecewise})"
        )
    right = sum(row["predicted"] == row["measured"] for row in r["rows"])
    lines += [
        "",
        f"The prediction names the cheaper one in {right} of {len(r['rows'])} cases. Lengths at which it changes: "
        f"{_changes(r['crossover'])}; copied one by one: {_changes(r['one_by_one_crossover'])}.",
        "Recomputing would be the cheaper one from a prefill of so many tokens/s on, by block size (in brackets: "
        "copied one by one): "
        + ", ".join(
            f"{size}: {n:,.0f} ({r['one_by_one_break_even_tokens_per_second'][size]:,.0f})"
            for size, n in r["break_even_tokens_per_second"].items()
        )
        + ".",
        "",
        "The same overload under both (4 requests in a pool of 18 blocks):",
        f"{'':<12}{'seconds':>9}{'preemptions':>13}{'recomputed tokens':>19}{'MB swapped':>12}",
    ]
    for how, w in r["workload"].items():
        lines.append(
            f"{how:<12}{w['seconds']:>9.2f}{w['preemptions']:>13}{w['recomputed_tokens']:>19}"
            f"{w['swapped_bytes'] / 1e6:>12.2f}"
        )
    same = r["workload"]["swap"]["tokens"] == r["workload"]["recompute"]["tokens"]
    lines.append(f"The answers are {'the same, token for token' if same else 'NOT THE SAME'}.")
    return "\n".join(lines)


def _price(r: dict[str, Any], key: str, form: str, unit: str, scale: float = 1.0) -> str:
    return price_text(r[key] or 0.0, form, unit, scale)


def _changes(crossovers: dict[int, int | None]) -> str:
    return (
        ", ".join(f"{n} tokens for blocks of {size}" for size, n in crossovers.items() if n is not None) or "none"
    )
