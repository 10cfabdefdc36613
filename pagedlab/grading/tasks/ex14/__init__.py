"""Exercise 14: how its answers are asked for. What the notebook plays is the package's manager over groups."""

from pagedlab.grading.tasks.ex14.probes import PROBES

__all__ = ["PROBES"]
