"""How long does the memory manager itself take? Ours with and without the event recorder, and vLLM's where it is
installed.

The load: 256 requests of 512 prompt tokens, of which all share the first 256, admitted one after the other, then
256 decode steps for all, then all freed. Blocks of 16 tokens, room for everything. Garbage collection is off while
the clock runs."""

from __future__ import annotations

import gc
import json as json_module
import os
import platform
import time
from collections.abc import Callable
from random import Random
from typing import Any

from pagedlab.engine.request import Request, SamplingParams
from pagedlab.errors import PagedlabError
from pagedlab.kv import BlockPool, KVCacheManager
from pagedlab.kv.observed import ObservedBlockPool, ObservedKVCacheManager
from pagedlab.parity import vllm_side
from pagedlab.trace.recorder import Recorder

NUM_REQUESTS, PROMPT_TOKENS, SHARED_TOKENS, DECODE_STEPS, BLOCK_SIZE = 256, 512, 256, 256, 16
NUM_BLOCKS = 1 + NUM_REQUESTS * (PROMPT_TOKENS + DECODE_STEPS) // BLOCK_SIZE
OPERATIONS = {
    "request": "make a request (hash 32 blocks)",
    "admit": "admit it (16 blocks hit, 16 new)",
    "decode": "allocate_slots of a decode step",
    "free": "free it (48 blocks)",
}
SIDES = {"pagedlab": "pagedlab", "recorded": "pagedlab, recorded", "vllm": "vLLM"}


def run(*, rounds: int = 5, json: bool = False) -> dict[str, Any]:
    """Measure and print (a table, or one JSON object). Microseconds a call, the best of ``rounds`` rounds (other
    programs only add).

    The sides take turns within a round, in one process. Without vLLM no ratio is taken, and the output says so.
    """
    if rounds < 1:
        raise PagedlabError(f"rounds is {rounds}; it must be at least 1.")
    sides: dict[str, Callable[[], dict[str, float]]] = {"pagedlab": _pagedlab, "recorded": _recorded}
    try:
        vllm_version, note = vllm_side.installed_version(), None
        sides["vllm"] = _vllm
    except PagedlabError as error:
        vllm_version, note = None, f"No ratio was taken: {error}"
    measured: dict[str, list[dict[str, float]]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, measure in sides.items():
            measured[name].append(measure())
    microseconds = {
        name: {op: round(min(m[op] for m in results), 2) for op in OPERATIONS} for name, results in measured.items()
    }
    result = {
        "benchmark": "kv",
        "unit": "microseconds a call",
        "rounds": rounds,
        "python": platform.python_version(),
        "machine": f"{_cpu()}, {os.cpu_count()} cores",
        "vllm": vllm_version,
        "microseconds": microseconds,
        "note": note,
    }
    print(json_module.dumps(result) if json else _table(result))
    return result


def _table(result: dict[str, Any]) -> str:
    microseconds = result["microseconds"]
    lines = [
        f"The memory manager alone, µs a call, the best of {result['rounds']} rounds. "
        f"{result['machine']}, Python {result['python']}"
    ]
    heads = [SIDES[name] for name in microseconds] + (["pagedlab : vLLM"] if "vllm" in microseconds else [])
    lines.append(" " * 34 + "".join(f"{head:>20}" for head in heads))
    for op, words in OPERATIONS.items():
        row = f"{words:<34}" + "".join(f"{side[op]:>20.2f}" for side in microseconds.values())
        if "vllm" in microseconds:
            row += f"{microseconds['pagedlab'][op] / microseconds['vllm'][op]:>20.2f}"
        lines.append(row)
    return "\n".join(lines + ([result["note"]] if result["note"] else [f"vLLM {result['vllm']}, in the same run."]))


# -------------------------------------------------------------------------------------------------- the sides


def _pagedlab() -> dict[str, float]:
    return _ours(KVCacheManager(BlockPool(NUM_BLOCKS), BLOCK_SIZE, PROMPT_TOKENS + DECODE_STEPS))


def _recorded() -> dict[str, float]:
    recorder = Recorder({"config": {"num_blocks": NUM_BLOCKS, "block_size": BLOCK_SIZE}})
    pool = ObservedBlockPool(BlockPool(NUM_BLOCKS), BLOCK_SIZE, recorder)
    manager = KVCacheManager(pool, BLOCK_SIZE, PROMPT_TOKENS + DECODE_STEPS)
    return _ours(ObservedKVCacheManager(manager, pool, recorder))


def _ours(manager: Any) -> dict[str, float]:
    params = SamplingParams(max_tokens=DECODE_STEPS, ignore_eos=True)

    def admit(request: Request) -> None:
        hits, num_hit = manager.get_computed_blocks(request)
        manager.allocate_slots(request, request.num_tokens - num_hit, new_computed_blocks=hits)

    return _measure(
        make=lambda request_id, tokens: Request(request_id, tokens, params, block_size=BLOCK_SIZE),
        admit=admit,
        decode=lambda request: manager.allocate_slots(request, 1),
        free=manager.free,
        append=lambda request, token: request.append_output_token(token),
    )


def _vllm() -> dict[str, float]:
    manager = vllm_side.make_manager(NUM_BLOCKS, BLOCK_SIZE, enable_caching=True)
    make, params = vllm_side.request_maker(BLOCK_SIZE, enable_caching=True), vllm_side.sampling_params(DECODE_STEPS)

    def admit(request: Any) -> None:
        hits, num_hit = manager.get_computed_blocks(request)[:2]
        manager.allocate_slots(request, request.num_tokens - num_hit, num_hit, hits)

    return _measure(
        make=lambda request_id, tokens: make(request_id, tokens, params),
        admit=admit,
        decode=lambda request: manager.allocate_slots(request, 1),
        free=manager.free,
        append=lambda request, token: request.append_output_token_ids(token),
    )


def _measure(
    *, make: Callable, admit: Callable, decode: Callable, free: Callable, append: Callable
) -> dict[str, float]:
    """Run the load once; microseconds a call for each operation."""
    rng = Random(0)
    shared = [rng.randrange(50_000) for _ in range(SHARED_TOKENS)]
    prompts = [
        shared + [rng.randrange(50_000) for _ in range(PROMPT_TOKENS - SHARED_TOKENS)] for _ in range(NUM_REQUESTS)
    ]
    first = make("first", shared + [0])  # computes the shared part; not measured
    admit(first)
    free(first)
    seconds = dict.fromkeys(OPERATIONS, 0.0)
    clock = time.perf_counter
    gc.collect()
    gc.disable()
    try:
        started = clock()
        requests = [make(f"r{i}", tokens) for i, tokens in enumerate(prompts)]
        seconds["request"] = clock() - started
        started = clock()
        for request in requests:
            admit(request)
        seconds["admit"] = clock() - started
        for request in requests:
            request.num_computed_tokens = PROMPT_TOKENS
        for _ in range(DECODE_STEPS):
            for request in requests:
                append(request, rng.randrange(50_000))
            started = clock()
            for request in requests:
                decode(request)
            seconds["decode"] += clock() - started
            for request in requests:
                request.num_computed_tokens += 1
        started = clock()
        for request in requests:
            free(request)
        seconds["free"] = clock() - started
    finally:
        gc.enable()
    calls = NUM_REQUESTS * DECODE_STEPS
    return {op: 1e6 * s / (calls if op == "decode" else NUM_REQUESTS) for op, s in seconds.items()}


def _cpu() -> str:
    """The processor's name, as far as the system tells."""
    try:
        with open("/proc/cpuinfo") as lines:
            return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
