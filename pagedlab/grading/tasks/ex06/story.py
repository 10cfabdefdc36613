"""The run that exercise 06 asks its predictions about: three answers to one prompt, in the paper's era.

Block numbers come from the seed and not from the model, so the small random one tells the facts.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pagedlab.grading.tasks.small_model import on_one_core

TEXT = (
    "Three friends leave the same town by the same road. As long as they walk together one map will do for all. "
    "Where the road divides each needs a copy of the last page, to draw on it what only one of them can see."
)
BLOCK_SIZE, NUM_BLOCKS, WIDTH, MAX_TOKENS = 4, 20, 3, 8


@dataclass(frozen=True)
class Puzzle:
    """What a learner is told: the moment at which G's prompt is computed and its sequences have forked."""

    seed: int
    num_prompt_tokens: int
    tables: dict[str, list[int]]
    free: list[int]  # the end is handed out next

    def __str__(self) -> str:
        lines = [f"block size    {BLOCK_SIZE}", f"prompt of G   {self.num_prompt_tokens} tokens, all in memory"]
        lines += [f"table of {name}  {table}" for name, table in self.tables.items()]
        return "\n".join([*lines, f"free blocks   {self.free} (the right end is handed out next)"])


def story(seed: int, model: Any = "tiny-random", **parts: Any) -> Any:
    """A recording engine of the paper's era: G's prompt is computed, and its three sequences have just forked.

    ``parts``: replacements, as ``LLM`` takes them.
    """
    from pagedlab.engine import LLM, SamplingParams

    rng = random.Random(f"06 {seed}")
    num_prompt_tokens = 4 * rng.randint(1, 2) + rng.randint(1, 3)
    short = [(rng.randint(2, 9), rng.randint(2, 4)) for _ in range(3)]  # prompt tokens, output tokens
    knobs = {"block_size": BLOCK_SIZE, "num_gpu_blocks_override": NUM_BLOCKS, "era": "paper"}
    # A model that is still to be loaded goes to the CPU: the small one is quickest there.
    llm = LLM(model, device="cpu", record=True, **knobs, **parts)
    tokens = llm.tokenizer.encode(TEXT)
    for name, (length, max_tokens) in zip("ABC", short, strict=True):
        params = SamplingParams(max_tokens=max_tokens, ignore_eos=True)
        llm.add_request(tokens[-length:], params, request_id=name)
    while llm.has_unfinished_requests():
        llm.step()
    params = SamplingParams(n=WIDTH, temperature=1.0, top_k=20, seed=seed, max_tokens=MAX_TOKENS, ignore_eos=True)
    llm.add_request(tokens[:num_prompt_tokens], params, request_id="G")
    llm.step()
    return llm


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

    forked = {name: list(table) for name, table in replay(llm.trace).tables.items()}
    free = llm.kv_cache_manager.gpu_allocator.get_free_block_ids()
    return Puzzle(seed, len(llm.groups["G"].prompt_token_ids), forked, free)
