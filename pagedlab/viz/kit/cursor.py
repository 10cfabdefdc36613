"""A cursor over a run: memory where it stands, and what happened in the step that led there."""

from __future__ import annotations

from pagedlab.trace import MemoryState, TraceDriver, replay
from pagedlab.trace.events import Event
from pagedlab.viz.kit.history import History


class Cursor:
    """``driver``: where in the run; ``history``: what was read of the run so far, to its end."""

    def __init__(self, driver: TraceDriver, history: History) -> None:
        self.driver, self.history = driver, history
        self._past: tuple[int, MemoryState] | None = None  # the last past state that was asked for

    @property
    def live(self) -> bool:
        """Is there an engine behind it? A trace played back is a recording, even in the process that made it."""
        return type(self.driver) is not TraceDriver and bool(self.driver.trace.header.get("live"))

    @property
    def grown(self) -> bool:
        """Has anything happened that was not read yet?"""
        return len(self.driver.trace.events) != self.history.num_events

    def read_on(self) -> bool:
        """Take in what has happened since. True where the engine was set back: then what was shown may never have
        happened, and a cursor beyond the end goes back to it."""
        if not self.history.update():
            return False
        self._past = None
        if self.driver.position > self.driver.num_steps:
            self.driver.seek(self.driver.num_steps)
        return True

    def state(self) -> MemoryState:
        """Memory at the cursor, not to be changed."""
        num_events = self.driver.num_events(self.driver.position)
        if num_events == self.history.num_events and not self.grown:
            return self.history.state
        if self._past is None or self._past[0] != num_events:
            self._past = (num_events, replay(self.driver.trace, num_events))
        return self._past[1]

    def events(self) -> list[Event]:
        """What happened in the step that led to the cursor (and before it, since the step before)."""
        position, num_events = self.driver.position, self.driver.num_events
        return self.driver.trace.events[num_events(position - 1) if position else 0 : num_events(position)]
