"""Exercise 07: the story that its notebook plays, and how its answers are asked for."""

from pagedlab.grading.tasks.ex07.probes import PROBES
from pagedlab.grading.tasks.ex07.story import puzzle, story

__all__ = ["PROBES", "puzzle", "story"]
