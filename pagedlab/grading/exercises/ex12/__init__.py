"""Exercise 12: ten faults, found by the rules that they break."""

from pagedlab.grading.exercises.ex12.books import BOOKS
from pagedlab.grading.exercises.ex12.lineup import WHAT, WHERE
from pagedlab.grading.exercises.ex12.moments import CONTENTS
from pagedlab.grading.exercises.ex12.moves import MOVES
from pagedlab.grading.part import Exercise

__all__ = ["EXERCISE"]

EXERCISE = Exercise("12", "12_capstone", (BOOKS, CONTENTS, MOVES, WHERE, WHAT))
