"""Exercise 17: what its notebook starts with, and how its answers are asked for."""

from pagedlab.grading.tasks.ex17.library import Library, multiply
from pagedlab.grading.tasks.ex17.probes import PROBES

__all__ = ["PROBES", "Library", "multiply"]
