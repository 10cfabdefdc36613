"""The run that exercise 01 asks its prediction about: a contiguous memory under load, told up to one moment."""

from __future__ import annotations

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


@dataclass(frozen=True)
class Facts:
    """What the next step did."""

    puzzle: Puzzle
    starts: list[int | None]  # of those who wait, in their order; None where it did not come in
    account: list[int]  # token, reserved, internal, external, free


def puzzle(seed: int) -> Puzzle:
    """The puzzle of a seed. ``print`` it."""
    return facts(seed).puzzle


@lru_cache(maxsize=64)
def facts(seed: int) -> Facts:
    """The first moment in a run of this seed after which one comes in, and the next fits nowhere though the sum would
    do. The rules are those of ``pagedlab.kv.serving``."""
    rng = random.Random(f"01 {seed}")
    while True:
        found = _look(rng)
        if found:
            told, starts, account = found
            return Facts(Puzzle(seed, *told), starts, account)


def _look(rng: random.Random) -> tuple | None:
    requests = [ServedRequest("ABCDEFGHIJ"[i], rng.randint(2, 14), rng.randint(2, 9)) for i in range(10)]
    memory = ContiguousMemory(NUM_SLOTS, MAX_MODEL_LEN, "power_of_two")
    serving = Serving(memory, requests)
    while not serving.done:
        regions = [
            (r.request_id, *memory.regions[r.request_id], r.num_slots, r.num_tokens - 1) for r in serving.running
        ]
        waiting = [(r.request_id, r.prompt_len, r.num_slots, memory.length_of(r)) for r in serving.waiting][:3]
        names, before = [name for name, *_ in waiting], set(memory.regions)
        holes = list(memory.allocator.holes)
        account = serving.step().account
        starts = _starts(serving, memory, names, before)
        came = [start for start in starts if start is not None]
        # A hole that is too short stands before the one that is taken, so that one has to look.
        skipped = came and holes and holes[0].start < came[0]
        if len(waiting) == 3 and len(regions) >= 2 and came and skipped and account.external and starts[-1] is None:
            values = [account.token, account.reserved, account.internal, account.external, account.free]
            return (regions, waiting), starts, values
    return None


def _starts(serving: Serving, memory: ContiguousMemory, names: list[str], before: set[str]) -> list[int | None]:
    """Where each of these came in. (Who came in samples one token at least, so all but one-token answers are there.)"""
    return [memory.regions[name][0] if name in memory.regions and name not in before else None for name in names]
