"""Exercise 06: the run that its notebook plays, and how its answers are asked for."""

from pagedlab.grading.tasks.ex06.probes import PROBES
from pagedlab.grading.tasks.ex06.story import puzzle, story

__all__ = ["PROBES", "puzzle", "story"]
