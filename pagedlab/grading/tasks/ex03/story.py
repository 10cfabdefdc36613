"""The run that exercise 03 asks its predictions about: played by the engine, told to the learner up to one moment.

Block numbers, lengths and order of events come from the seed; they do not depend on the model, so the small random
one tells the facts, and the notebook plays the same story with the real one.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

TEXT = (
    "A block table is a small list of numbers. It says for every block of a request where in memory that block lies, "
    "so the blocks can lie anywhere, in any order, and nobody has to reserve room for words that may never be written."
)
BLOCK_SIZE = 4
NUM_DECODE_STEPS = 7


@dataclass(frozen=True)
class Puzzle:
    """What a learner is told: the moment at which request Z has arrived and B is running."""

    seed: int
    free_queue: list[int]
    num_prompt_tokens: int  # of Z
    neighbour_table: list[int]  # of B
    neighbour_tokens: int  # of B, in memory
    block_size: int = BLOCK_SIZE
    num_decode_steps: int = NUM_DECODE_STEPS

    def __str__(self) -> str:
        return (
            f"block size              {self.block_size}\n"
            f"free queue, head first  {', '.join(map(str, self.free_queue))}\n"
            f"request B, running      {self.neighbour_tokens} tokens in memory, block table {self.neighbour_table}\n"
            f"request Z, arriving     a prompt of {self.num_prompt_tokens} tokens, "
            f"then {self.num_decode_steps} decode steps"
        )


def story(seed: int, model: Any = "tiny-random", **parts: Any) -> Any:
    """A recording engine at the moment of the puzzle: short requests came and went, B runs, Z has just arrived.

    Every number is the seed's; ``model`` (a name, or an LLM whose weights are shared) decides the texts only.
    ``parts``: replacements, as ``LLM`` takes them.
    """
    from pagedlab.engine import LLM, SamplingParams

    rng = random.Random(f"03 {seed}")
    # B asks for a block in Z's decode step 1, 2 or 3, and Z not before B: so B takes what Z might have counted on.
    neighbour_asks = rng.randint(1, 3)
    asks = rng.randint(neighbour_asks, 4)
    num_prompt_tokens = rng.choice((8, 12)) + 1 - asks
    neighbour_tokens = 12 - neighbour_asks
    short = [(rng.randint(2, 7), rng.randint(2, 4)) for _ in range(3)]  # prompt tokens, output tokens
    order = rng.sample(range(4), 4)  # who arrives first

    # A model that is still to be loaded goes to the CPU: the small one is quickest there.
    knobs = {"block_size": BLOCK_SIZE, "num_gpu_blocks_override": 16, "enable_prefix_caching": False}
    llm = LLM(model, device="cpu", record=True, **knobs, **parts)
    tokens = llm.tokenizer.encode(TEXT)
    prompt_of_b = rng.randint(3, 5)
    for who in order:
        if who == 3:
            llm.add_request(tokens[:prompt_of_b], SamplingParams(max_tokens=40, ignore_eos=True), request_id="B")
        else:
            length, max_tokens = short[who]
            params = SamplingParams(max_tokens=max_tokens, ignore_eos=True)
            llm.add_request(tokens[who + 1 : who + 1 + length], params, request_id="CDE"[who])
    while llm.requests["B"].num_computed_tokens < neighbour_tokens:
        llm.step()
    params = SamplingParams(max_tokens=NUM_DECODE_STEPS + 1, ignore_eos=True)
    llm.add_request(tokens[:num_prompt_tokens], params, request_id="Z")
    return llm


def puzzle(seed: int) -> Puzzle:
    """The puzzle of a seed, from the small random model's run up to its moment. ``print`` it."""
    return puzzle_of(story(seed), seed)


def puzzle_of(llm: Any, seed: int) -> Puzzle:
    """The puzzle as a run of the story tells it, at its moment."""
    from pagedlab.trace import replay

    state = replay(llm.trace)
    return Puzzle(
        seed,
        list(state.free),
        state.requests["Z"].num_tokens,
        list(state.tables["B"]),
        state.requests["B"].num_computed_tokens,
    )
