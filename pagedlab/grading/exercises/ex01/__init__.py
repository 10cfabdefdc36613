"""Exercise 01: where does three quarters of the memory go? First fit, every slot accounted for, and a run predicted."""

from pagedlab.grading.exercises.ex01.account import ACCOUNT
from pagedlab.grading.exercises.ex01.first_fit import FIRST_FIT
from pagedlab.grading.exercises.ex01.prediction import PREDICTION
from pagedlab.grading.part import Exercise

__all__ = ["EXERCISE"]

EXERCISE = Exercise("01", "01_two_sins", (FIRST_FIT, ACCOUNT, PREDICTION))
