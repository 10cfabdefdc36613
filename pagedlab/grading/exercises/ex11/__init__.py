"""Exercise 11: what does paging cost? Both ends of the block size, the best one for a workload, and a real run."""

from pagedlab.grading.exercises.ex11.best import BEST
from pagedlab.grading.exercises.ex11.costs import COSTS
from pagedlab.grading.exercises.ex11.prediction import PREDICTION
from pagedlab.grading.part import Exercise

__all__ = ["EXERCISE"]

EXERCISE = Exercise("11", "11_costs", (COSTS, BEST, PREDICTION))
