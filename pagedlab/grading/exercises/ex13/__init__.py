"""Exercise 13: the tokens of a step under a budget, and what is planned one step ahead."""

from pagedlab.grading.exercises.ex13.ahead import AHEAD
from pagedlab.grading.exercises.ex13.late import LATE
from pagedlab.grading.exercises.ex13.samples import SAMPLES
from pagedlab.grading.exercises.ex13.step import STEP
from pagedlab.grading.part import Exercise

__all__ = ["EXERCISE"]

EXERCISE = Exercise("13", "13_sharing_a_step", (STEP, SAMPLES, AHEAD, LATE), course_part=2)
