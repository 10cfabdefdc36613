"""The run that exercise 08 asks its predictions about: six requests, and a pool that is full in a moment.

Who has to make room comes from the seed's lengths and not from the model, so the small random one tells the facts.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pagedlab.grading.tasks.small_model import on_one_core, small_model
from pagedlab.trace import replay

BLOCK_SIZE = 4
NAMES = "ABCDEF"
TEXT = (
    "The night train to the coast leaves at ten and stops at every village on the way, so that those who cannot sleep "
    "may count the lamps on the platforms and wonder who lights them."
)


@dataclass(frozen=True)
class Puzzle:
    """What a learner is told: the moment before the step in which memory runs out."""

    seed: int
    running: dict[str, tuple[int, int, list[int]]]  # in order of admission: prompt, generated, and the table
    free: int

    def __str__(self) -> str:
        lines = [f"block size   {BLOCK_SIZE}", f"free blocks  {self.free}", "running, in order of admission:"]
        for name, (prompt, generated, table) in self.running.items():
            tokens = f"{prompt} prompt + {generated} generated tokens (the last one is not in memory yet)"
            lines.append(f"   {name}  {tokens}, {len(table)} block{'' if len(table) == 1 else 's'}")
        return "\n".join(lines)


def story(seed: int, model: Any = "tiny-random", **parts: Any) -> Any:
    """A recording engine of V1 with the requests queued and nothing run. ``parts``: as ``LLM`` takes them."""
    return _engine(seed, moment(seed)[0], model, **parts)


def _engine(seed: int, attempt: int, model: Any, **parts: Any) -> Any:
    """The ``attempt`` counts the lengths that were tried for this seed."""
    from pagedlab.engine import LLM, SamplingParams

    rng = random.Random(f"08 {seed} {attempt}")
    start = rng.randint(3, 6)  # many of them need a block in the same step
    lengths = [start + BLOCK_SIZE * rng.randint(0, 1) + rng.choice([0, 0, 1]) for _ in NAMES]
    num_blocks = sum(-(-n // BLOCK_SIZE) for n in lengths) + rng.randint(2, 6)
    knobs = {"block_size": BLOCK_SIZE, "num_gpu_blocks_override": num_blocks + 1, "enable_prefix_caching": False}
    llm = LLM(model, device="cpu", record=True, **knobs, **parts)
    tokens = llm.tokenizer.encode(TEXT)
    for i, (name, length) in enumerate(zip(NAMES, lengths, strict=True)):
        llm.add_request(tokens[i : i + length], SamplingParams(max_tokens=20, ignore_eos=True), request_id=name)
    return llm


@lru_cache(maxsize=64)
def moment(seed: int) -> tuple[int, int]:
    """Which lengths are taken, and after how many steps memory is about to run out: the small random model is run until
    a step in which two requests make room while others go on. Where a seed's lengths have no such step early on, others
    are tried."""
    with on_one_core():
        for attempt in range(100):
            llm = _engine(seed, attempt, small_model())
            for steps in range(9):
                llm.step()
                gone = sum(event.kind == "request_preempted" for event in llm.trace.events)
                if gone == 2 and len(llm.scheduler.running) >= 2:
                    return attempt, steps
                if gone:
                    break
    raise RuntimeError(f"no step with two victims for seed {seed}")


def puzzle(seed: int) -> Puzzle:
    """The puzzle of a seed, from the small random model's run up to its moment. ``print`` it."""
    with on_one_core():
        return puzzle_of(at_the_moment(seed), seed)


def at_the_moment(seed: int) -> Any:
    """The small random model's run, just before the step that is asked about."""
    llm = story(seed, small_model())
    for _ in range(moment(seed)[1]):
        llm.step()
    return llm


def puzzle_of(llm: Any, seed: int) -> Puzzle:
    """The puzzle as a run of the story tells it, at its moment."""
    state, running = replay(llm.trace), {}
    for name in state.running:
        request = state.requests[name]
        generated = request.num_tokens - request.num_prompt_tokens
        running[name] = (request.num_prompt_tokens, generated, list(state.tables[name]))
    return Puzzle(seed, running, len(state.free))
