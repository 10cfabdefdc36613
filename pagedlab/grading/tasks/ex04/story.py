"""The run that exercise 04 asks its prediction about: played by the engine, told up to a step in which several want in.

Lengths, blocks and the order of events come from the seed and not from the model.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pagedlab.grading.tasks.small_model import on_one_core

TEXT = (
    "A hotel with rooms of one size is never full and empty at once. Whoever comes takes any free room, a large family "
    "takes several, wherever they are, and nobody has to ask whether the rooms lie side by side on the same floor."
)
BLOCK_SIZE, NUM_BLOCKS, MAX_NUM_SEQS = 4, 20, 5


@dataclass(frozen=True)
class Puzzle:
    """What a learner is told of the moment before the step."""

    seed: int
    running: dict[str, int]  # request: tokens in memory
    waiting: dict[str, int]  # request: prompt tokens
    num_free: int

    def __str__(self) -> str:
        def listed(requests: dict[str, int]) -> str:
            return ", ".join(f"{name} {count}" for name, count in requests.items())

        return (
            f"block size {BLOCK_SIZE}, {self.num_free} blocks are free, max_num_seqs is {MAX_NUM_SEQS}\n"
            f"running, with so many tokens in memory   {listed(self.running)}\n"
            f"waiting, with prompts of so many tokens  {listed(self.waiting)}"
        )


def story(seed: int, model: Any = "tiny-random", **parts: Any) -> Any:
    """A recording engine at the moment of the puzzle.

    ``model`` (a name, or an LLM whose weights are shared) decides the texts only. ``parts``: replacements, as ``LLM``
    takes them.
    """
    from pagedlab.engine import LLM, SamplingParams

    rng = random.Random(f"04 {seed}")
    while True:
        running = [rng.randint(3, 12) for _ in range(2)]
        steps = rng.randint(2, 4)  # decode steps before the moment
        waiting = [rng.randint(3, 17) for _ in range(4)]
        if _is_a_puzzle([tokens + steps for tokens in running], waiting):
            break
    knobs = {"block_size": BLOCK_SIZE, "num_gpu_blocks_override": NUM_BLOCKS, "max_num_seqs": MAX_NUM_SEQS}
    llm = LLM(model, device="cpu", record=True, enable_prefix_caching=False, **knobs, **parts)
    tokens = llm.tokenizer.encode(TEXT)
    params = SamplingParams(max_tokens=30, ignore_eos=True)
    for name, length in zip("AB", running, strict=True):
        llm.add_request(tokens[:length], params, request_id=name)
    for _ in range(1 + steps):
        llm.step()
    for name, length in zip("CDEF", waiting, strict=True):
        llm.add_request(tokens[:length], params, request_id=name)
    return llm


def _is_a_puzzle(running: list[int], waiting: list[int]) -> bool:
    """Somebody comes in and somebody does not, for want of blocks and not of places; somebody who runs takes a block;
    and one behind the one that is barred would have fitted."""
    free = NUM_BLOCKS - 1 - sum(-(-tokens // BLOCK_SIZE) for tokens in running)
    asks = sum(tokens % BLOCK_SIZE == 0 for tokens in running)
    free, count = free - asks, 0
    for prompt in waiting:
        needed = -(-prompt // BLOCK_SIZE)
        if needed > free:
            break
        free, count = free - needed, count + 1
    small = any(-(-prompt // BLOCK_SIZE) <= free for prompt in waiting[count + 1 :])
    return asks == 1 and 1 <= count < min(len(waiting), MAX_NUM_SEQS - 2) and small


@lru_cache(maxsize=64)
def puzzle(seed: int) -> Puzzle:
    """The puzzle of a seed, from the small random model's run. ``print`` it."""
    return puzzle_of(small_run(seed), seed)


def small_run(seed: int) -> Any:
    """The story on the small random model."""
    with on_one_core():
        return story(seed)


def puzzle_of(llm: Any, seed: int) -> Puzzle:
    """The puzzle as a run of the story tells it, at its moment."""
    from pagedlab.trace import replay

    now = replay(llm.trace)
    return Puzzle(
        seed,
        {name: now.requests[name].num_computed_tokens for name in now.running},
        {name: now.requests[name].num_tokens for name in now.waiting},
        len(now.free),
    )
