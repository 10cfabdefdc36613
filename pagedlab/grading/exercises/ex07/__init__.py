"""Exercise 07: why is the second question faster? The free queue, names of blocks, hits, revival and eviction."""

from pagedlab.grading.exercises.ex07.hits import HITS
from pagedlab.grading.exercises.ex07.names import NAMES
from pagedlab.grading.exercises.ex07.pool import POOL
from pagedlab.grading.exercises.ex07.prediction import PREDICTION
from pagedlab.grading.exercises.ex07.queue import QUEUE
from pagedlab.grading.part import Exercise

__all__ = ["EXERCISE"]

EXERCISE = Exercise("07", "07_prefix_caching", (QUEUE, NAMES, HITS, POOL, PREDICTION))
