"""The strip of time: a column for each step. The front end draws the cursor on it and scrubs along it; here is the same
cursor for a picture without a front end."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from pagedlab.viz.kit.marks import Mark


@dataclass
class Strip:
    """Where the strip lies (pixels), how many steps it has room for, and what is drawn on it."""

    left: float
    top: float
    width: float
    height: float
    columns: int
    marks: Sequence[Mark] = field(default_factory=list)

    def x_of(self, position: float) -> float:
        """The right edge of a step's column: where the playhead stands after ``position`` steps."""
        return self.left + self.width * position / self.columns

    def playhead(self, position: int, num_steps: int) -> list[Mark]:
        """The line at the cursor, and a veil over the steps that are known beyond it."""
        x = self.x_of(position)
        out = [
            Mark("playhead", (x - 0.8, self.top - 6, 1.6, self.height + 8), "top playhead"),
            Mark("playhead.head", (), "path ink", f"M{x - 5:.1f} {self.top - 10:g}h10l-5 6z"),
        ]
        if position < num_steps:
            out.append(Mark("veil", (x, self.top - 1, self.x_of(num_steps) - x, self.height + 2), "top veil"))
        return out


def columns(num_steps: int, live: bool) -> int:
    """How many steps a strip has room for: all of a recording; a live run starts with 24 and doubles when they are
    full.
    """
    if not live:
        return max(1, num_steps)
    return 24 * 2 ** max(0, math.ceil(math.log2(max(num_steps, 1) / 24)))


def step_text(position: int, num_steps: int, live: bool, can_step: bool) -> str:
    """Where the cursor is: in the past, at the latest step of a run that goes on, or at its end."""
    past = live and position < num_steps
    more = " · the past" if past else " so far" if live and position and can_step else ""
    return f"step {position} of {num_steps}{more}"
