"""Exercise 11: the runs that its notebook plays, and how its answers are asked for."""

from pagedlab.grading.tasks.ex11.probes import PROBES
from pagedlab.grading.tasks.ex11.story import puzzle, story

__all__ = ["PROBES", "puzzle", "story"]
