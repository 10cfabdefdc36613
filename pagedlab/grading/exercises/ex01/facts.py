"""What the step that exercise 01 asks about does."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from pagedlab.grading.tasks.ex01.story import Puzzle, puzzle, story


@dataclass(frozen=True)
class Facts:
    """What the next step did."""

    puzzle: Puzzle
    starts: list[int | None]  # of those who wait, in their order; None where it did not come in
    account: list[int]  # token, reserved, internal, external, free


@lru_cache(maxsize=64)
def facts(seed: int) -> Facts:
    """One step more of the story."""
    question, serving = puzzle(seed), story(seed)
    after = serving.step().account
    regions = serving.memory.regions
    # Who came in samples one token at least, so all but one-token answers, which there are none of, are still there.
    starts = [regions[name][0] if name in regions else None for name, *_ in question.waiting]
    return Facts(question, starts, [after.token, after.reserved, after.internal, after.external, after.free])
