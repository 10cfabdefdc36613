"""What the step that exercise 06 asks about does."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from pagedlab.grading.tasks.ex06.story import Puzzle, puzzle_of, small_run


@dataclass(frozen=True)
class Facts:
    """What happened in the next step."""

    puzzle: Puzzle
    copies: list[list[int]]
    tables: list[list[int]]


@lru_cache(maxsize=64)
def facts(seed: int) -> Facts:
    """Run the story one step further, on the small random model, and read the trace."""
    from pagedlab.trace import replay

    llm = small_run(seed)
    question = puzzle_of(llm, seed)
    llm.step()
    copies = [[e.from_block_id, e.to_block_id] for e in llm.trace.events if e.kind == "block_copied"]
    after = replay(llm.trace).tables
    return Facts(question, copies, [list(after[name]) for name in question.tables])
