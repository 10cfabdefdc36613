"""Every lab of the course, as the two cells of a notebook: what comes before it, and the lab itself.

Their runs are over before the lab opens, so that a step in it is the lab's own work, whatever the engine takes.
"""

from __future__ import annotations

BLOCKS, BLOCK_SIZE = 256, 16

_SERVED = f"""\
import warnings
from pagedlab import LLM, SamplingParams
warnings.simplefilter("ignore")  # of a CPU that plans ahead
def served(new_tokens=40, **sampling):
    knobs = dict(block_size={BLOCK_SIZE}, num_gpu_blocks_override={BLOCKS}, async_scheduling=ahead)
    llm = LLM("tiny-random", record=True, **knobs)
    for n in range(8):
        llm.add_request("Hi there" * (10 + 5 * n), SamplingParams(max_tokens=new_tokens, ignore_eos=True, **sampling))
    while llm.has_unfinished_requests():
        llm.step()
    return llm
ahead = False
"""
_FLIPS = """
runs = {f"seed {seed}": served(temperature=0.8, seed=seed) for seed in range(5)}
"""
_KERNEL = f"""\
from pagedlab import LLM, SamplingParams
llm = LLM("tiny-random", record=True, block_size={BLOCK_SIZE}, num_gpu_blocks_override={BLOCKS})
llm.add_request("Hi there" * 60, SamplingParams(max_tokens=4, ignore_eos=True))
llm.step()
"""
_PREEMPTION = """\
from pagedlab.bench.preemption import overload, run_out
prompts = [[(7 * i + 3 * j) % 200 + 1 for j in range(n)] for i, n in enumerate((120, 140, 60, 80, 70))]
runs = [run_out(overload("tiny-random", how, prompts, num_blocks=130)) for how in ("recompute", "swap")]
"""
_SIDES = """\
from pagedlab.parity.side_by_side import golden, side_by_side
both = side_by_side(golden("sched-02"))
"""
# The lab opens at the last step, where it has been taken back to the first.
_FROM_THE_START = "lab.{part}.seek({first})\nlab"

LABS = {  # name in pagedlab.viz -> (cell before it, cell of the lab)
    "flips": (_SERVED + _FLIPS, "flips(runs, step=0)"),
    "fragmentation": ("", "fragmentation(moment=0)"),
    "kernel_walk": (_KERNEL, "kernel_walk(llm)"),
    "knobs": (
        "from pagedlab.viz import knobs\nlab = knobs()\nfor size in (8, 32, 64):\n    lab.run(block_size=size)\n",
        _FROM_THE_START.format(part="board", first=1),
    ),
    "memory_map": (_SERVED + "llm = served()\n", "memory_map(llm.trace, select='A')"),
    "plan_and_run": (_SERVED + "ahead = True\nllm = served()\n", "plan_and_run(llm, step=1)"),
    "preemption": (_PREEMPTION, "preemption(*runs, step=0)"),
    "prefix_hits": (
        _SERVED + "llm = served()\n",
        "lab = prefix_hits(llm, 'Hi there' * 20)\n" + _FROM_THE_START.format(part="lab", first=1),
    ),
    "step_both": (_SIDES, "step_both(both, step=0)"),
    "token_budget": (_SERVED + "llm = served()\n", "token_budget(llm, step=1)"),
}
