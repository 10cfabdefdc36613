"""What happens in the runs that exercise 09 asks its prediction about."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from pagedlab.grading.tasks.ex09.story import CHANGES, Puzzle, puzzle_of, story
from pagedlab.grading.tasks.small_model import on_one_core


@dataclass(frozen=True)
class Facts:
    """The answers, from real runs: how many requests run after the first step, and how many preemptions there are
    until all are done, under each setting."""

    puzzle: Puzzle
    running: list[int]
    preemptions: list[int]


@lru_cache(maxsize=64)
def facts(seed: int) -> Facts:
    """Run the four settings to the end."""
    running, preemptions = [], []
    with on_one_core():
        engines = [story(seed, setting) for setting in range(1, len(CHANGES) + 1)]
        for llm in engines:
            llm.step()
            running.append(len(llm.tables))
            while llm.has_unfinished_requests():
                llm.step()
            preemptions.append(sum(e.kind == "request_preempted" for e in llm.trace.events))
    return Facts(puzzle_of(engines, seed), running, preemptions)
