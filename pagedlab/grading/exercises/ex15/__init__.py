"""Exercise 15: three readings of logs, and one of a trace."""

from pagedlab.grading.exercises.ex15.at_once import AT_ONCE
from pagedlab.grading.exercises.ex15.memory import MEMORY
from pagedlab.grading.exercises.ex15.mend import MEND
from pagedlab.grading.exercises.ex15.moment import MOMENT
from pagedlab.grading.part import Exercise

__all__ = ["EXERCISE"]

EXERCISE = Exercise("15", "15_under_the_glass", (MEMORY, AT_ONCE, MEND, MOMENT), course_part=2)
