"""Exercise 04: why do equal blocks end it? The waste and its bound, who is let in, and what a batch is worth."""

from pagedlab.grading.exercises.ex04.admitted import ADMITTED
from pagedlab.grading.exercises.ex04.prediction import PREDICTION
from pagedlab.grading.exercises.ex04.speed import SPEED
from pagedlab.grading.exercises.ex04.waste import WASTE
from pagedlab.grading.part import Exercise

__all__ = ["EXERCISE"]

EXERCISE = Exercise("04", "04_fragmentation_gone", (WASTE, ADMITTED, SPEED, PREDICTION))
