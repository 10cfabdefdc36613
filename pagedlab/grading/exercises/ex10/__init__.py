"""Exercise 10: can you read the real thing now? Who does what in a step, in which order, and the free queue after."""

from pagedlab.grading.exercises.ex10.order import ORDER
from pagedlab.grading.exercises.ex10.queue import QUEUE
from pagedlab.grading.exercises.ex10.tables import TABLES
from pagedlab.grading.part import Exercise

__all__ = ["EXERCISE"]

EXERCISE = Exercise("10", "10_reading_vllm", (TABLES, ORDER, QUEUE))
