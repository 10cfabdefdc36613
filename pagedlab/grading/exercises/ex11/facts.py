"""What happens in the runs that exercise 11 asks its prediction about."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from pagedlab.grading.tasks.ex11.story import SIZES, Puzzle, puzzle, story
from pagedlab.grading.tasks.small_model import on_one_core, small_model
from pagedlab.trace import replay


@dataclass(frozen=True)
class Facts:
    """The answers, from real runs: how many requests run after the first step, and how many slots they hold that
    have no token, at each block size."""

    puzzle: Puzzle
    running: list[int]
    empty: list[int]


@lru_cache(maxsize=64)
def facts(seed: int) -> Facts:
    """Run the three first steps."""
    running, empty = [], []
    with on_one_core():
        for size in SIZES:
            llm = story(seed, size, small_model())
            llm.step()
            state = replay(llm.trace)
            held = [name for name, table in state.tables.items() if table]
            running.append(len(held))
            slots = size * sum(len(state.tables[name]) for name in held)
            empty.append(slots - sum(state.requests[name].num_computed_tokens for name in held))
    return Facts(puzzle(seed), running, empty)
