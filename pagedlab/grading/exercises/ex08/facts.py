"""What happens in the step that exercise 08 asks its predictions about."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from pagedlab.grading.tasks.ex08.story import Puzzle, at_the_moment, moment, puzzle_of
from pagedlab.grading.tasks.small_model import on_one_core
from pagedlab.trace import replay


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


@lru_cache(maxsize=64)
def facts(seed: int) -> Facts:
    """Run the story, on the small random model, up to its moment and one step on."""
    with on_one_core():
        llm = at_the_moment(seed)
        question, before, done = puzzle_of(llm, seed), replay(llm.trace), len(llm.trace.events)
        llm.step()
    events = llm.trace.events[done:]
    victims = [e.request_id for e in events if e.kind == "request_preempted"]
    served = [e.request_id for e in events if e.kind == "slot_written" and e.request_id in question.running]
    again = [before.requests[name].num_tokens for name in victims]
    carried = [len(before.tables[name]) for name in victims]
    return Facts(question, victims, list(dict.fromkeys(served)), again, carried, moment(seed)[1] + 1)
