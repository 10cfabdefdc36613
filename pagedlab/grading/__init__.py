"""Checks in the notebook, and grades from outside of it. In a notebook: ``from pagedlab.grading import check,
report``."""

from pagedlab.grading.checks import CheckFailed, check, report

__all__ = ["CheckFailed", "check", "report"]
