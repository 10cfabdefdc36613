"""Exercise 17: the first token that differs, and two sums that do not depend on the batch."""

from pagedlab.grading.exercises.ex17.attention import ATTENTION
from pagedlab.grading.exercises.ex17.flips import FLIPS
from pagedlab.grading.exercises.ex17.product import PRODUCT
from pagedlab.grading.part import Exercise

__all__ = ["EXERCISE"]

EXERCISE = Exercise("17", "17_another_answer", (FLIPS, PRODUCT, ATTENTION), course_part=2)
