"""Exercise 05: how does attention read scattered blocks? One query, a batch, a Triton kernel."""

from pagedlab.grading.exercises.ex05.batch import BATCH
from pagedlab.grading.exercises.ex05.kernel import KERNEL
from pagedlab.grading.exercises.ex05.walk import WALK
from pagedlab.grading.part import Exercise

__all__ = ["EXERCISE"]

EXERCISE = Exercise("05", "05_inside_the_kernel", (WALK, BATCH, KERNEL))
