"""Exercise 09: which knob do I turn? The pool from the knobs, a setting that meets a target, and a real run."""

from pagedlab.grading.exercises.ex09.choice import CHOICE
from pagedlab.grading.exercises.ex09.pool import POOL
from pagedlab.grading.exercises.ex09.prediction import PREDICTION
from pagedlab.grading.part import Exercise

__all__ = ["EXERCISE"]

EXERCISE = Exercise("09", "09_turning_the_knobs", (POOL, CHOICE, PREDICTION))
