"""Exercise 16: a model and its pool, cut for several ranks; and the rank that has a fault."""

from pagedlab.grading.exercises.ex16.cards import CARDS
from pagedlab.grading.exercises.ex16.heads import HEADS
from pagedlab.grading.exercises.ex16.ranks import RANKS
from pagedlab.grading.exercises.ex16.sums import SUMS
from pagedlab.grading.part import Exercise

__all__ = ["EXERCISE"]

EXERCISE = Exercise("16", "16_many_cards", (HEADS, CARDS, SUMS, RANKS), course_part=2)
