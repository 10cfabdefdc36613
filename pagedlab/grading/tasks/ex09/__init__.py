"""Exercise 09: the runs that its notebook plays, and how its answers are asked for."""

from pagedlab.grading.tasks.ex09.probes import PROBES
from pagedlab.grading.tasks.ex09.story import puzzle, story

__all__ = ["PROBES", "puzzle", "story"]
