"""Exercise 15: how its answers are asked for. What the notebook shows are the package's logs and recordings."""

from pagedlab.grading.tasks.ex15.probes import PROBES

__all__ = ["PROBES"]
