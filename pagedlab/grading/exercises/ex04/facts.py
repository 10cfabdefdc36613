"""What the step that exercise 04 asks about does."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from pagedlab.grading.tasks.ex04.story import BLOCK_SIZE, Puzzle, puzzle_of, small_run


@dataclass(frozen=True)
class Facts:
    """What the step did."""

    puzzle: Puzzle
    now_running: int
    blocks_left: int
    empty_slots: int


@lru_cache(maxsize=64)
def facts(seed: int) -> Facts:
    """Run the story one step further, on the small random model, and read the answers from its trace."""
    from pagedlab.trace import replay

    llm = small_run(seed)
    question = puzzle_of(llm, seed)
    llm.step()
    after = replay(llm.trace)
    held = sum(len(after.tables[name]) for name in after.running) * BLOCK_SIZE
    written = sum(after.requests[name].num_computed_tokens for name in after.running)
    return Facts(question, len(after.running), len(after.free), held - written)
