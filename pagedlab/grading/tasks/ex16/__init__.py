"""Exercise 16: how its answers are asked for. What the notebook shows are recordings of the package's ranks."""

from pagedlab.grading.tasks.ex16.probes import PROBES

__all__ = ["PROBES"]
