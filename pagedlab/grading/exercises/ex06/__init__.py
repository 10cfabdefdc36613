"""Exercise 06: when do two requests need one block, and when two? Owners, fork, copy-on-write."""

from pagedlab.grading.exercises.ex06.allocator import ALLOCATOR
from pagedlab.grading.exercises.ex06.append import APPEND
from pagedlab.grading.exercises.ex06.forking import FORK
from pagedlab.grading.exercises.ex06.prediction import PREDICTION
from pagedlab.grading.part import Exercise

__all__ = ["EXERCISE"]

EXERCISE = Exercise("06", "06_sharing_and_cow", (ALLOCATOR, FORK, APPEND, PREDICTION))
