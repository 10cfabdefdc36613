"""Exercise 13: how its answers are asked for, and the engine's own steps beside them (``story``)."""

from pagedlab.grading.tasks.ex13.probes import PROBES

__all__ = ["PROBES"]
