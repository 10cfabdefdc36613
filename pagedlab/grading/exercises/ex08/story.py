"""The run that exercise 08 asks its predictions about: six requests, and a pool that is full in a moment.

Who has to make room comes from the seed's lengths and not from the model, so the small random one tells the facts.
"""

from __future__ import annotations

import random
import threading
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pagedlab.trace import replay

BLOCK_SIZE = 4
NAMES = "ABCDEF"
TEXT = (
    "The night train to the coast leaves at ten and stops at every village on the way, so that those who cannot sleep "
    "may count the lamps on the platforms and wonder who lights them."
)
_one_at_a_time = threading.Lock()  # a class is graded in several threads
_weights: list[Any] = []  # of the small model, loaded once


@dataclass(frozen=True)
class Puzzle:
    """What a learner is told: the moment before the step in which memory runs out."""

    seed: int
    running: dict[str, tuple[int, int, list[int]]]  # in order of admission: prompt, generated, and the table
    free: int

    def __str__(self) -> str:
        lines = [f"block size   {BLOCK_SIZE}", f"free blocks  {self.free}", "running, in order of admission:"]
        for name, (prompt, generated, table) in self.running.items():
            told = f"{prompt} prompt + {generated} generated tokens (the last one is not in memory yet)"
            lines.append(f"   {name}  {told}, {len(table)} block{'' if len(table) == 1 else 's'}")
        return "\n".join(lines)


def story(seed: int, model: Any = "tiny-random", **parts: Any) -> Any:
    """A recording engine of V1 with the requests queued and nothing run. ``parts``: as ``LLM`` takes them."""
    return _engine(seed, facts(seed).attempt, model, **parts)


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


def puzzle(seed: int) -> Puzzle:
    """The puzzle of a seed. ``print`` it."""
    return facts(seed).puzzle


@dataclass(frozen=True)
class Facts:
    """What the step did. ``again``: tokens that go through the model when each victim comes back, with nothing found;
    ``carried``: blocks that a swap would have carried out for each. Victims in the order in which they go."""

    puzzle: Puzzle
    victims: list[str]
    served: list[str]
    again: list[int]
    carried: list[int]
    step: int  # the number of the step
    attempt: int  # see ``_engine``


@lru_cache(maxsize=64)
def facts(seed: int) -> Facts:
    """Run the story, on the small random model, until a step in which two requests make room while others go on. Where
    a seed's lengths have no such step early on, others are tried."""
    import torch

    with _one_at_a_time:
        threads = torch.get_num_threads()
        torch.set_num_threads(1)  # a model this small is quickest on one core
        try:
            if not _weights:
                from pagedlab.engine import LLM

                _weights.append(LLM("tiny-random", device="cpu", num_gpu_blocks_override=2))
            for attempt in range(100):
                llm = _engine(seed, attempt, _weights[0])
                for step in range(9):
                    llm.step()
                    found = _read(seed, attempt, llm.trace, step)
                    if len(found.victims) == 2 and len(found.served) >= 2:
                        return found
                    if found.victims:
                        break
        finally:
            torch.set_num_threads(threads)
    raise RuntimeError(f"no step with two victims for seed {seed}")


def _read(seed: int, attempt: int, trace: Any, step: int) -> Facts:
    """What step ``step + 1`` did."""
    ends = [0, *trace.step_ends()]
    before, events = replay(trace, ends[step]), trace.events[ends[step] : ends[step + 1]]
    running = {}
    for name in before.running:
        request = before.requests[name]
        generated = request.num_tokens - request.num_prompt_tokens
        running[name] = (request.num_prompt_tokens, generated, list(before.tables[name]))
    victims = [e.request_id for e in events if e.kind == "request_preempted"]
    served = [e.request_id for e in events if e.kind == "slot_written" and e.request_id in running]
    again = [before.requests[name].num_tokens for name in victims]
    carried = [len(before.tables[name]) for name in victims]
    told, served = Puzzle(seed, running, len(before.free)), list(dict.fromkeys(served))
    return Facts(told, victims, served, again, carried, step + 1, attempt)
