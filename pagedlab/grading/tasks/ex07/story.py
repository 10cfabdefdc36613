"""The run that exercise 07 asks its predictions about: who is found, who is handed out, who is forgotten.

Block numbers come from the seed and not from the model, so the small random one tells the facts.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from pagedlab.grading.tasks.small_model import on_one_core, small_model

TEXT = (
    "You are a careful librarian. Answer in one short sentence, name the shelf, and never guess. "
    "When a reader gives a book back, leave it on the table for a while; perhaps somebody asks for it again."
)
OTHERS = (
    "A lighthouse keeper counts the ships that pass at night and writes their names into a long grey book.",
    "Bread needs flour, water, salt and time; most people forget the last of these four and wonder why.",
    "Seven mountains stand around the lake, and on each of them a fire was lit when the winter ended.",
)
BLOCK_SIZE = 4


@dataclass(frozen=True)
class Puzzle:
    """What a learner is told: the moment at which Z has arrived, and all others are over."""

    seed: int
    free: list[int]  # head first
    holds: dict[int, str]  # of the blocks that have a name: which tokens
    num_prompt_tokens: int  # of Z
    num_shared: int  # of Z's tokens, how many are A's first ones

    def __str__(self) -> str:
        lines = [f"block size           {BLOCK_SIZE}", "free queue, head first"]
        lines += [f"   block {block:>2}          {self.holds.get(block, 'no name')}" for block in self.free]
        lines.append(
            f"request Z, arriving  a prompt of {self.num_prompt_tokens} tokens; "
            f"the first {self.num_shared} are the first {self.num_shared} of A, the next one is another"
        )
        return "\n".join(lines)


def story(seed: int, model: Any = "tiny-random", **parts: Any) -> Any:
    """A recording engine at the moment of the puzzle: A, B and C came and went, Z has just arrived.

    ``parts``: replacements, as ``LLM`` takes them.
    """
    from pagedlab.engine import LLM, SamplingParams

    rng = random.Random(f"07 {seed}")
    lengths = {"A": rng.randint(12, 15), "B": rng.randint(5, 9), "C": rng.randint(6, 10)}
    outputs = {"A": rng.randint(2, 5), "B": rng.randint(2, 7), "C": rng.randint(2, 7)}
    # The last token of each is never written. One block more than they need has never been used.
    used = sum(-(-(lengths[name] + outputs[name] - 1) // BLOCK_SIZE) for name in "ABC")
    hits, into_block = rng.randint(2, 3), rng.randint(0, 2)
    evicted, last = rng.randint(1, 2), rng.randint(1, BLOCK_SIZE - 1)

    knobs = {"block_size": BLOCK_SIZE, "num_gpu_blocks_override": used + 2, "enable_prefix_caching": True}
    # A model that is still to be loaded goes to the CPU: the small one is quickest there.
    llm = LLM(model, device="cpu", record=True, **knobs, **parts)
    encode = llm.tokenizer.encode
    prompts = {"A": encode(TEXT), "B": encode(OTHERS[0]), "C": encode(OTHERS[1])}
    for name in rng.sample("ABC", 3):
        params = SamplingParams(max_tokens=outputs[name], ignore_eos=True)
        llm.add_request(prompts[name][: lengths[name]], params, request_id=name)
    while llm.has_unfinished_requests():
        llm.step()

    # Z takes every block without a name, and one or two of the others.
    nameless = sum(block.block_hash is None for block in _queue(llm))
    num_blocks = min(hits + nameless + evicted, used)
    num_shared = hits * BLOCK_SIZE + into_block
    own = encode(OTHERS[2])
    while own[0] == prompts["A"][num_shared]:
        own = own[1:]
    tokens = (prompts["A"][:num_shared] + own + own + own)[: (num_blocks - 1) * BLOCK_SIZE + last]
    llm.add_request(tokens, SamplingParams(max_tokens=2, ignore_eos=True), request_id="Z")
    return llm


def _queue(llm: Any) -> list[Any]:
    return llm.block_pool.free_block_queue.get_all_free_blocks()


def puzzle(seed: int) -> Puzzle:
    """The puzzle of a seed, from the small random model's run up to its moment. ``print`` it."""
    with on_one_core():
        return puzzle_of(story(seed, small_model()), seed)


def puzzle_of(llm: Any, seed: int) -> Puzzle:
    """The puzzle as a run of the story tells it, at its moment."""
    queue = _queue(llm)
    return Puzzle(
        seed,
        [block.block_id for block in queue],
        _holds(llm, [block.block_id for block in queue if block.block_hash is not None]),
        llm.requests["Z"].num_prompt_tokens,
        _num_shared(llm),
    )


def _holds(llm: Any, named: list[int]) -> dict[int, str]:
    """For each of the blocks: whose tokens were written there last."""
    last = {e.block_id: e for e in llm.trace.events if e.kind == "slot_written"}
    return {
        block: f"tokens {last[block].position - BLOCK_SIZE + 1} to {last[block].position} of {last[block].request_id}"
        for block in named
    }


def _num_shared(llm: Any) -> int:
    """How many tokens Z and A have in common."""
    arrived = {e.request_id: e.token_ids for e in llm.trace.events if e.kind == "request_arrived"}
    pairs = zip(arrived["A"], arrived["Z"], strict=False)
    return next((i for i, (a, z) in enumerate(pairs) if a != z), len(arrived["A"]))
