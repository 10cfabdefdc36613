"""Exercise 14: what a window gives back, a step's room in several groups, and the hit that all of them have."""

from pagedlab.grading.exercises.ex14.common_hit import COMMON_HIT
from pagedlab.grading.exercises.ex14.falls_out import FALLS_OUT
from pagedlab.grading.exercises.ex14.make_room import MAKE_ROOM
from pagedlab.grading.exercises.ex14.window_hit import WINDOW_HIT
from pagedlab.grading.part import Exercise

__all__ = ["EXERCISE"]

EXERCISE = Exercise("14", "14_groups", (FALLS_OUT, MAKE_ROOM, WINDOW_HIT, COMMON_HIT), course_part=2)
