"""Exercise 12: the runs that its notebook looks at, and how its answers are asked for."""

from pagedlab.grading.tasks.ex12.lineup import runs
from pagedlab.grading.tasks.ex12.probes import PROBES
from pagedlab.grading.tasks.ex12.watch import watch

__all__ = ["PROBES", "runs", "watch"]
