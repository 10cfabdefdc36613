"""Exercise 10: the step that its notebook plays, and how its answers are asked for."""

from pagedlab.grading.tasks.ex10.probes import PROBES
from pagedlab.grading.tasks.ex10.story import calls_of_a_step, puzzle, recorded, story

__all__ = ["PROBES", "calls_of_a_step", "puzzle", "recorded", "story"]
