"""Exercise 02: the run that its notebook plays, and how its answers are asked for."""

from pagedlab.grading.tasks.ex02.probes import PROBES
from pagedlab.grading.tasks.ex02.story import puzzle, story

__all__ = ["PROBES", "puzzle", "story"]
