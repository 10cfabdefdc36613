"""What happens in the run that exercise 03 asks its predictions about."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from pagedlab.grading.tasks.ex03.story import Puzzle, puzzle_of, story
from pagedlab.grading.tasks.small_model import on_one_core


@dataclass(frozen=True)
class Facts:
    """What happened to Z in the run."""

    puzzle: Puzzle
    table_after_prefill: list[int]
    tokens_in_block: list[int]
    new_blocks: list[int | None]  # one for each decode step


@lru_cache(maxsize=64)
def facts(seed: int) -> Facts:
    """Run the story to its end, on the small random model, and read Z's table from the trace after every step."""
    with on_one_core():
        return _facts(seed)


def _facts(seed: int) -> Facts:
    from pagedlab.trace import replay

    llm = story(seed)
    question = puzzle_of(llm, seed)
    tables, fill = [], []
    for step in range(question.num_decode_steps + 1):
        llm.step()
        # Z's last step frees its table at once, so look just before that: at the last slot that was written.
        last_write = max(i for i, event in enumerate(llm.trace.events) if event.kind == "slot_written")
        state = replay(llm.trace, last_write + 1)
        tables.append(list(state.tables["Z"]))
        if step == 0:
            fill = [state.filled("Z", i) for i in range(len(tables[0]))]
    new_blocks = [
        table[-1] if len(table) > len(earlier) else None for earlier, table in zip(tables, tables[1:], strict=False)
    ]
    return Facts(question, tables[0], fill, new_blocks)
