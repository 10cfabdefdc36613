"""What stands beside the learner's code: for each exercise, what its notebook imports and how its answers are asked.

``tasks/exNN`` holds the stories that the notebook plays and ``PROBES``, for each part the function that asks the
learner's objects one question. The answers to these questions, and whatever computes them, are in
``pagedlab/grading/exercises``: a process that holds a learner's code to be judged imports this package alone, and
cannot read that one. So nothing here may import it, hold a reference, or be given one in a case; a test holds this.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

Probe = Callable[[dict[str, Any], Any], Any]  # (the learner's objects by name, a case) -> an answer, plain data


def probe_of(name: str) -> Probe:
    """The probe of the part "03.2". Raises KeyError for a part that there is not."""
    return importlib.import_module(f"{__name__}.ex{name[:2]}").PROBES[name]
