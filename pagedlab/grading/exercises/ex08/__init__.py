"""Exercise 08: what happens when memory runs out? The price of both ways, and the scheduler step that preempts."""

from pagedlab.grading.exercises.ex08.choice import CHOICE
from pagedlab.grading.exercises.ex08.prediction import PREDICTION
from pagedlab.grading.exercises.ex08.price import PRICE
from pagedlab.grading.exercises.ex08.step import STEP
from pagedlab.grading.part import Exercise

__all__ = ["EXERCISE"]

EXERCISE = Exercise("08", "08_preemption", (PRICE, CHOICE, STEP, PREDICTION))
