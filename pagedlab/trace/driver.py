"""How a lab moves through a run: a cursor over the steps of a trace.

A lab talks to a *driver* and does not care whether the run is live (``pagedlab.engine.EngineDriver`` runs the engine
when the cursor is at the end) or came from a file.
"""

from __future__ import annotations

from typing import Any

from pagedlab.errors import PagedlabError, whole
from pagedlab.trace.recorder import Trace
from pagedlab.trace.replay import MemoryState, replay


class TraceDriver:
    """Moves through a recorded run. ``position`` counts finished steps; 0 is before the first one."""

    moves = False  # does the run go on by itself, whether anybody steps or not?

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._position = 0

    @property
    def trace(self) -> Trace:
        """The run, as far as it is known."""
        return self._trace

    @property
    def can_edit(self) -> bool:
        """Is there an engine behind it that can be changed by hand, and run again from an earlier step?"""
        return False

    @property
    def position(self) -> int:
        """Never beyond the run's end, which comes nearer when an engine is restored to an earlier moment."""
        return min(self._position, self.num_steps)

    @position.setter
    def position(self, position: int) -> None:
        self._position = position

    @property
    def num_steps(self) -> int:
        """How many steps are recorded so far."""
        return len(self.trace.step_ends())

    @property
    def can_step(self) -> bool:
        return self.position < self.num_steps

    def step(self) -> bool:
        """One step forward. False, and nothing changed, at the end of the run."""
        if not self.can_step:
            return False
        self.position += 1
        return True

    def step_back(self) -> bool:
        """One step back. False, and nothing changed, at the start."""
        if self.position == 0:
            return False
        self.position -= 1
        return True

    def seek(self, position: int) -> None:
        """Jump to a recorded step. Raises PagedlabError for one that is not recorded."""
        position = whole(position, "A step")
        if not 0 <= position <= self.num_steps:
            raise PagedlabError(f"There is no step {position}; recorded are 0 to {self.num_steps}.")
        self.position = position

    def num_events(self, position: int) -> int:
        """How many events had happened after step ``position`` (at the end: those after the last step too)."""
        ends = [0, *self.trace.step_ends()]
        return len(self.trace.events) if position == len(ends) - 1 else ends[position]

    def state(self) -> MemoryState:
        """Memory at the cursor."""
        return replay(self.trace, self.num_events(self.position))

    def branch(self, at: int, **changes: Any) -> TraceDriver:
        """Another run that shares the first ``at`` steps. A recorded run has no engine to go on with: PagedlabError."""
        raise PagedlabError(
            "A recorded run cannot be branched: there is no engine behind it. Run the cell that makes a live one."
        )

    def apply(self, edit: Any) -> None:
        """Change the run by hand. A recorded run cannot be changed: PagedlabError."""
        raise PagedlabError(
            "A recorded run cannot be edited: there is no engine behind it. Run the cell that makes a live one."
        )
