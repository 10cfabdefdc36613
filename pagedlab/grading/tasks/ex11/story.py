"""The runs that exercise 11 asks its prediction about: one workload, one pool, three block sizes."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

TEXT = (
    "A page that is too small fills the page table, and a page that is too large stands half empty, and between the "
    "two lies a wide valley in which nobody has to look very hard for the right place to build. Most systems chose a "
    "size long ago and never came back to the question, because the answer was good enough for everybody."
)
SIZES, NUM_SLOTS = (2, 16, 64), 256


@dataclass(frozen=True)
class Puzzle:
    """What a learner is told: prompts in the order of arrival, and the pool."""

    seed: int
    prompts: list[int]  # tokens of each
    num_slots: int = NUM_SLOTS
    sizes: tuple[int, ...] = SIZES

    def __str__(self) -> str:
        return (
            f"prompts, in order of arrival  {', '.join(map(str, self.prompts))} tokens\n"
            f"the pool                      {self.num_slots} slots (and the null block)\n"
            f"block sizes                   {', '.join(map(str, self.sizes))}"
        )


def lengths(seed: int) -> list[int]:
    rng = random.Random(f"11 {seed}")
    prompts = [rng.randint(2, 14) for _ in range(8)]
    for i in rng.sample(range(8), 3):
        prompts[i] = rng.randint(35, 90)
    return prompts


def story(seed: int, block_size: int, model: Any = "tiny-random", **parts: Any) -> Any:
    """A recording engine with this block size; the eight prompts have arrived, and no step was made. ``parts``:
    replacements, as ``LLM`` takes them."""
    from pagedlab.engine import LLM, SamplingParams

    llm = LLM(
        model,
        device="cpu",
        record=True,
        block_size=block_size,
        num_gpu_blocks_override=1 + NUM_SLOTS // block_size,
        enable_prefix_caching=False,
        **parts,
    )
    tokens = llm.tokenizer.encode(TEXT)
    for i, length in enumerate(lengths(seed)):
        prompt = (tokens[i:] + tokens)[:length]
        llm.add_request(prompt, SamplingParams(max_tokens=12, ignore_eos=True), request_id="ABCDEFGH"[i])
    return llm


def puzzle(seed: int) -> Puzzle:
    """The puzzle of a seed. ``print`` it."""
    return Puzzle(seed, lengths(seed))
