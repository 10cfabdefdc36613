"""The run that exercise 01 asks its prediction about: a contiguous memory under load, told up to one moment."""

from __future__ import annotations

import copy
import random
from dataclasses import dataclass
from functools import lru_cache

from pagedlab.kv.contiguous import ContiguousMemory
from pagedlab.kv.serving import ServedRequest, Serving

NUM_SLOTS, MAX_MODEL_LEN = 48, 32


@dataclass(frozen=True)
class Puzzle:
    """What a learner is told: who holds what after a step, and who waits."""

    seed: int
    regions: list[tuple[str, int, int, int, int]]  # request, start, length, needed, written
    waiting: list[tuple[str, int, int, int]]  # request, prompt tokens, slots that it will need, slots to be reserved

    def __str__(self) -> str:
        lines = [f"{NUM_SLOTS} slots, first fit, a power of two is reserved for each request", ""]
        lines.append("running   region        will need   written")
        for name, start, length, needed, written in self.regions:
            lines.append(f"   {name}      {start:>2} to {start + length - 1:>2}   {needed:>12}   {written:>7}")
        lines += ["", "waiting   prompt   will need   to be reserved"]
        for name, prompt, needed, length in self.waiting:
            lines.append(f"   {name}   {prompt:>9}   {needed:>9}   {length:>14}")
        return "\n".join(lines)


def puzzle(seed: int) -> Puzzle:
    """The puzzle of a seed. ``print`` it."""
    return Puzzle(seed, *_regions_and_waiting(story(seed)))


@lru_cache(maxsize=64)
def _story(seed: int) -> Serving:
    rng = random.Random(f"01 {seed}")
    while True:
        requests = [ServedRequest("ABCDEFGHIJ"[i], rng.randint(2, 14), rng.randint(2, 9)) for i in range(10)]
        serving = Serving(ContiguousMemory(NUM_SLOTS, MAX_MODEL_LEN, "power_of_two"), requests)
        while not serving.done:
            if _is_a_puzzle(serving):
                return serving
            serving.step()


def story(seed: int) -> Serving:
    """A run at the first moment of its seed after which one comes in, and the next fits nowhere though the sum would
    do. The rules are those of ``pagedlab.kv.serving``."""
    return copy.deepcopy(_story(seed))


def _regions_and_waiting(serving: Serving) -> tuple[list, list]:
    memory = serving.memory
    regions = [(r.request_id, *memory.regions[r.request_id], r.num_slots, r.num_tokens - 1) for r in serving.running]
    waiting = [(r.request_id, r.prompt_len, r.num_slots, memory.length_of(r)) for r in serving.waiting]
    return regions, waiting[:3]


def _is_a_puzzle(serving: Serving) -> bool:
    """By what the next step would do, on a copy."""
    regions, waiting = _regions_and_waiting(serving)
    if len(waiting) < 3 or len(regions) < 2:
        return False
    holes = list(serving.memory.allocator.holes)
    ahead = copy.deepcopy(serving)
    account = ahead.step().account
    came = [ahead.memory.regions[name][0] for name, *_ in waiting if name in ahead.memory.regions]
    # A hole that is too short stands before the one that is taken, so that one has to look.
    skipped = came and holes and holes[0].start < came[0]
    return bool(skipped and account.external and len(came) < 3)
