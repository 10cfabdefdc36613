"""Exercise 03: which block holds token 9? The block table, the slots, and a prediction of a real run."""

from pagedlab.grading.exercises.ex03.prediction import DECODE, PREFILL
from pagedlab.grading.exercises.ex03.slots import SLOTS
from pagedlab.grading.exercises.ex03.table import TABLE
from pagedlab.grading.part import Exercise

__all__ = ["EXERCISE"]

EXERCISE = Exercise("03", "03_block_table", (TABLE, SLOTS, PREFILL, DECODE))
