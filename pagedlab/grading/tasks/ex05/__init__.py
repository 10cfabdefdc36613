"""Exercise 05: what its notebook starts with, and how its answers are asked for."""

from pagedlab.grading.tasks.ex05.interpreted import load_triton
from pagedlab.grading.tasks.ex05.probes import PROBES
from pagedlab.grading.tasks.ex05.walk import walk
from pagedlab.grading.tasks.ex05.wgsl import runnable

__all__ = ["PROBES", "load_triton", "runnable", "walk"]
