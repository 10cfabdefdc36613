"""What happens in the run that exercise 07 asks its predictions about."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from pagedlab.grading.tasks.ex07.story import Puzzle, puzzle_of, story
from pagedlab.grading.tasks.small_model import on_one_core, small_model


@dataclass(frozen=True)
class Facts:
    """What happened when Z was admitted."""

    puzzle: Puzzle
    hits: list[int]
    new_blocks: list[int]
    forgotten: list[int]


@lru_cache(maxsize=64)
def facts(seed: int) -> Facts:
    """Run the story one step further, on the small random model, and read the trace."""
    with on_one_core():
        llm = story(seed, small_model())
        question, before = puzzle_of(llm, seed), len(llm.trace.events)
        llm.step()
    events = llm.trace.events[before:]
    hits = next(list(e.block_ids) for e in events if e.kind == "prefix_looked_up" and e.request_id == "Z")
    new = next(list(e.block_ids) for e in events if e.kind == "blocks_allocated" and e.request_id == "Z")
    return Facts(question, hits, new, [e.block_id for e in events if e.kind == "block_evicted"])
