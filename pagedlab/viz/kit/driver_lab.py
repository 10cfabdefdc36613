"""A lab over the steps of one run."""

from __future__ import annotations

from collections.abc import Callable

from pagedlab.trace import Trace, TraceDriver
from pagedlab.viz.kit.cursor import Cursor
from pagedlab.viz.kit.history import History
from pagedlab.viz.kit.widget import Lab


class DriverLab(Lab):
    """A lab whose cursor is a driver's. The lab calls ``follow`` before it calls ``super().__init__()``.

    Labs that were given one driver share its cursor and go through the run together; labs that were given one engine
    have a cursor each, and all see the run grow.
    """

    driver: TraceDriver

    def follow(self, driver: TraceDriver, history: Callable[[Trace], History] = History) -> None:
        """Show this run. ``history``: makes what reads it, once and forward."""
        self.driver = driver
        self._history = history(driver.trace)
        self._cursor = Cursor(driver, self._history)

    @property
    def trace(self) -> Trace:
        return self.driver.trace

    @property
    def position(self) -> int:
        """How many steps are finished at the cursor."""
        return self.driver.position

    @property
    def num_steps(self) -> int:
        return self.driver.num_steps

    @property
    def can_step(self) -> bool:
        return self.driver.can_step

    @property
    def shares(self) -> Trace:
        return self.trace

    @property
    def live(self) -> bool:
        return self._cursor.live

    def move(self, position: int) -> None:
        self.driver.seek(max(0, min(position, self.num_steps)))
        if position > self.num_steps:
            self.driver.step()

    def read_on(self) -> bool:
        return self._cursor.read_on()

    def grown(self) -> bool:
        return self._cursor.grown

    def stamp(self, position: int) -> int:
        return self.driver.num_events(position)
