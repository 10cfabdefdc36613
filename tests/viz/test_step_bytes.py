"""A step sends under 20 KB in every lab, also one that fills or empties a large pool, and it adds up to the picture.

(The knobs lab's board, which is sent whole, is in test_knobs_lab.py.)
"""

import pytest
from test_lab import FrontEnd

from pagedlab.bench.preemption import overload, run_out
from pagedlab.engine import LLM, SamplingParams
from pagedlab.parity.side_by_side import golden, side_by_side
from pagedlab.viz import fragmentation, kernel_walk, memory_map, preemption, prefix_hits, step_both

MOST = 20_000


@pytest.fixture(scope="module")
def model():
    return LLM("tiny-random", record=False, block_size=4, num_gpu_blocks_override=8)


def full_run(model, num_prompts=6, length=200, **knobs):
    """A recorded run, to its end: prompts that differ but for the first half."""
    llm = LLM(model, record=True, **{"block_size": 16, "num_gpu_blocks_override": 256} | knobs)
    for i in range(num_prompts):
        prompt = [*range(1, length // 2), *((7 * i + 3 * j) % 200 + 1 for j in range(length // 2))]
        llm.add_request(prompt, SamplingParams(max_tokens=6, ignore_eos=True))
    return run_out(llm)


def two_runs_that_preempt(model):
    prompts = [[(7 * i + 3 * j) % 200 + 1 for j in range(n)] for i, n in enumerate((120, 140, 60, 80, 70))]
    return [run_out(overload(model, how, prompts, num_blocks=71)) for how in ("recompute", "swap")]


def walked(model):
    llm = LLM(model, record=True, block_size=1, num_gpu_blocks_override=256)
    llm.add_request("Hi there, you. " * 9, SamplingParams(max_tokens=20, ignore_eos=True))
    llm.step()
    return kernel_walk(llm)


LABS = {
    "memory map, 256 blocks": lambda model: memory_map(full_run(model)),
    "memory map, full at once": lambda model: memory_map(full_run(model, 2, 240, block_size=1,
                                                                  num_gpu_blocks_override=500)),
    "memory map, medium cells": lambda model: memory_map(full_run(model, 2, 200, block_size=8,
                                                                  num_gpu_blocks_override=61)),
    "preemption, 70 blocks a side": lambda model: preemption(*two_runs_that_preempt(model)),
    "prefix hits, 256 blocks": lambda model: prefix_hits(full_run(model), [*range(1, 150)]).lab,
    "fragmentation": lambda model: fragmentation(moment=0),
    "kernel": walked,
    "side by side": lambda model: step_both(side_by_side(golden("sched-02"))),
}  # fmt: skip


@pytest.mark.parametrize("which", LABS)
def test_a_step_is_small_and_adds_up_to_the_picture_there_and_back(model, which):
    lab = LABS[which](model)
    end = FrontEnd(lab)
    lab.seek(0)
    end.sizes.clear()
    for position in [*range(1, lab.num_steps + 1), *range(lab.num_steps - 1, -1, -1)]:
        end.show(position)
        assert end.pictures[end.at] == {m.id: m.to_json() for m in lab.marks()}
        strip = lab.strip()
        assert end.strip == {m.id: m.to_json() for m in (strip.marks if strip else [])}
    assert lab.num_steps > 4 and not end.errors
    assert max(end.sizes) < MOST, sorted(end.sizes)[-5:]
