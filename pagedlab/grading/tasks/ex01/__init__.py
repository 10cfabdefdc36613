"""Exercise 01: the run that its notebook asks about, and how its answers are asked for."""

from pagedlab.grading.tasks.ex01.probes import PROBES
from pagedlab.grading.tasks.ex01.story import puzzle

__all__ = ["PROBES", "puzzle"]
