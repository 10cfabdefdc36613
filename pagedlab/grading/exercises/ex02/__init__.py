"""Exercise 02: at which byte does a key begin? Positions, blocks and bytes of one tensor."""

from pagedlab.grading.exercises.ex02.bytes import BYTES
from pagedlab.grading.exercises.ex02.prediction import PREDICTION
from pagedlab.grading.exercises.ex02.translation import TRANSLATION
from pagedlab.grading.part import Exercise

__all__ = ["EXERCISE"]

EXERCISE = Exercise("02", "02_virtual_memory", (TRANSLATION, BYTES, PREDICTION))
