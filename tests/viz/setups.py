"""Every lab in small set-ups of its own, for what is to hold of each of them at every step."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from runs import crowded, recorded_run

from pagedlab.bench.preemption import overload, run_out
from pagedlab.engine import LLM, SamplingParams
from pagedlab.kernels.wgsl.gpu import adapters
from pagedlab.parity.side_by_side import golden, side_by_side
from pagedlab.trace import recorded
from pagedlab.viz import (
    flips,
    fragmentation,
    kernel_walk,
    knobs,
    memory_map,
    plan_and_run,
    preemption,
    prefix_hits,
    step_both,
    token_budget,
)


def tiny() -> LLM:
    """What the set-ups share: a model."""
    return LLM("tiny-random", record=False, block_size=4, num_gpu_blocks_override=8)


def full_run(model: LLM, num_prompts: int = 6, length: int = 200, **knobs: Any) -> LLM:
    """A recorded run, to its end: prompts that differ but for the first half."""
    llm = LLM(model, record=True, **{"block_size": 16, "num_gpu_blocks_override": 256} | knobs)
    for i in range(num_prompts):
        prompt = [*range(1, length // 2), *((7 * i + 3 * j) % 200 + 1 for j in range(length // 2))]
        llm.add_request(prompt, SamplingParams(max_tokens=6, ignore_eos=True))
    return run_out(llm)


def two_runs_that_preempt(model: LLM, num_blocks: int = 71, smaller: int = 1) -> list[LLM]:
    prompts = [[(7 * i + 3 * j) % 200 + 1 for j in range(n // smaller)] for i, n in enumerate((120, 140, 60, 80, 70))]
    return [run_out(overload(model, how, prompts, num_blocks=num_blocks)) for how in ("recompute", "swap")]


def walked(model: LLM) -> LLM:
    llm = LLM(model, record=True, block_size=1, num_gpu_blocks_override=256)
    llm.add_request("Hi there, you. " * 9, SamplingParams(max_tokens=20, ignore_eos=True))
    llm.step()
    return llm


def two_dialects(model: LLM) -> Any:
    if not adapters():
        pytest.skip("no WebGPU adapter here; install one (Debian, Ubuntu: apt-get install mesa-vulkan-drivers)")
    llm = LLM(model, record=True, block_size=4, num_gpu_blocks_override=14)
    llm.add_request("Hi there, you, who are you", SamplingParams(max_tokens=9, ignore_eos=True))
    llm.step()
    return kernel_walk(llm, dialects=True)


def answers_apart(model: LLM) -> Any:
    """One prompt, its tokens drawn with several seeds."""
    runs = {}
    for seed in range(5):
        llm = LLM(model, record=True, block_size=4, num_gpu_blocks_override=64)
        params = SamplingParams(max_tokens=14, temperature=0.8, top_p=0.6, seed=seed // 2, ignore_eos=True)
        llm.add_request("Hi there, you", params)
        runs[f"run number {seed}, with a name that is long"] = run_out(llm)
    return flips(runs)


def paper(model: LLM) -> LLM:
    """Forks, copies and swaps."""
    llm = LLM(model, record=True, era="paper", preemption="swap", block_size=4, num_gpu_blocks_override=20)
    llm.add_request(
        "Tell me a short thing", SamplingParams(n=3, max_tokens=6, temperature=1.0, seed=3, ignore_eos=True)
    )
    llm.add_request("And one more of them now", SamplingParams(max_tokens=6, ignore_eos=True))
    return run_out(llm)


def windows(_: LLM, num_blocks: int = 40, block_size: int = 4, model: str = "tiny-random-hybrid") -> LLM:
    """Layers that look at everything beside layers with a window; one request makes room for another."""
    llm = LLM(model, device="cpu", record=True, block_size=block_size, num_gpu_blocks_override=num_blocks)
    for prompt in ("The window moves on", "Hello there, all of you", "The window moves on, too"):
        llm.add_request(prompt, SamplingParams(max_tokens=20, ignore_eos=True))
    return run_out(llm)


def on_ranks(num_blocks: int = 12) -> LLM:
    """A model over two processes, which the caller ends (``close``)."""
    knobs = {"block_size": 4, "num_gpu_blocks_override": num_blocks, "max_model_len": 40}
    llm = LLM("tiny-random", device="cpu", record=True, tensor_parallel_size=2, **knobs)
    for prompt in ("One table", "A slice"):
        llm.add_request(prompt, SamplingParams(max_tokens=9, ignore_eos=True))
    return run_out(llm)


def recorded_on_ranks(num_blocks: int) -> Any:
    llm = on_ranks(num_blocks)
    trace = llm.trace
    llm.close()
    return memory_map(trace)


def three_runs_of_knobs() -> Any:
    lab = knobs(load=[("Hello there you", 9), ("Hello there me", 12), ("Hello there", 8)], fraction=64)
    lab.run(block_size=32)
    lab.run(card="T4")
    return lab


def shared_steps(model: LLM, lab: Any = token_budget, **knobs: Any) -> Any:
    """Three that decode, a long prompt, one behind it; every kind of step is in it."""
    small = {"block_size": 4, "num_gpu_blocks_override": 60, "max_num_batched_tokens": 24}
    with warnings.catch_warnings():  # of a CPU that plans ahead
        warnings.simplefilter("ignore", RuntimeWarning)
        llm = LLM(model, record=True, **small | knobs)
    for i, n in enumerate((9, 7, 5)):
        params = SamplingParams(max_tokens=8 + 3 * i, ignore_eos=True)
        llm.add_request([(3 * i + 7 * j) % 200 + 1 for j in range(n)], params)
    llm.step()
    for n in (60, 20, 9):
        llm.add_request([(5 * j + n) % 200 + 1 for j in range(n)], SamplingParams(max_tokens=5, ignore_eos=True))
    return lab(run_out(llm), step=1)


def pool_of(num_blocks: int, block_size: int) -> Any:
    prompts = [[1, 2, 3, 4, 5, 6, 7], [3, 4, 5] * 6, [9] * 11]
    return memory_map(recorded_run(prompts, num_blocks=num_blocks, block_size=block_size))


# Large ones, that fill and empty a pool at once: what a step sends is measured with these.
LARGE = {
    "memory map, 256 blocks": lambda model: memory_map(full_run(model)),
    "memory map, full at once": lambda model: memory_map(full_run(model, 2, 240, block_size=1,
                                                                  num_gpu_blocks_override=500)),
    "memory map, medium cells": lambda model: memory_map(full_run(model, 2, 200, block_size=8,
                                                                  num_gpu_blocks_override=61)),
    "preemption, 70 blocks a side": lambda model: preemption(*two_runs_that_preempt(model)),
    "prefix hits, 256 blocks": lambda model: prefix_hits(full_run(model), [*range(1, 150)]).lab,
    "fragmentation": lambda model: fragmentation(moment=0),
    "kernel": lambda model: kernel_walk(walked(model)),
    "side by side": lambda model: step_both(side_by_side(golden("sched-02"))),
}  # fmt: skip
SMALL = {
    "memory map, no room for all": lambda model: memory_map(crowded()),
    "memory map, 12 blocks": lambda model: pool_of(12, 4),
    "memory map, 30 blocks": lambda model: pool_of(30, 8),
    "memory map, blocks of 40": lambda model: pool_of(6, 40),
    "memory map, 4,096 blocks": lambda model: pool_of(4096, 16),
    "memory map, the paper's": lambda model: memory_map(paper(model)),
    "memory map, windows": lambda model: memory_map(windows(model)),
    "memory map, windows and small cells": lambda model: memory_map(windows(model, 120, 2)),
    "memory map, two ranks": lambda model: recorded_on_ranks(12),
    "memory map, two ranks and small cells": lambda model: recorded_on_ranks(40),
    "fragmentation, 256 slots": lambda model: fragmentation([(30, 20), (60, 10), (50, 50), (40, 70)], num_slots=256,
                                                            max_model_len=128, block_size=16),
    "preemption, 20 blocks a side": lambda model: preemption(*two_runs_that_preempt(model, 20, smaller=4)),
    "kernel, two dialects": two_dialects,
    "flips": answers_apart,
    "prefix hits, of text": lambda model: prefix_hits(full_run(model, 3, 20, block_size=4), "abc").lab,
    "prefix hits, no room for all": lambda model: prefix_hits(crowded(), [*range(10, 18), 1]).lab,
    "knobs": lambda model: three_runs_of_knobs().board,
    "token budget": shared_steps,
    "token budget, one step ahead": lambda model: shared_steps(model, async_scheduling=True),
    "token budget, no room for all": lambda model: token_budget(crowded()),
    "token budget, far too large": lambda model: shared_steps(model, max_num_batched_tokens=8192),
    "token budget, the paper's": lambda model: token_budget(paper(model)),
    "token budget, of vLLM": lambda model: token_budget(recorded("vllm-async")),
    "plan and run": lambda model: shared_steps(model, plan_and_run),
    "plan and run, one step ahead": lambda model: shared_steps(model, plan_and_run, async_scheduling=True),
    "plan and run, no room for all": lambda model: plan_and_run(crowded()),
    "plan and run, of vLLM": lambda model: plan_and_run(recorded("vllm-async")),
}  # fmt: skip
EVERY = LARGE | SMALL
