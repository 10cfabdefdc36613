"""A lab over the steps of one run."""

from __future__ import annotations

import asyncio
import contextlib
import weakref
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
        if driver.moves:
            with contextlib.suppress(RuntimeError):  # outside of a kernel nobody waits for what comes
                task = asyncio.get_running_loop().create_task(_go_with_it(weakref.ref(self), driver))
                _going.add(task)
                task.add_done_callback(_going.discard)

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

    def go_with_it(self) -> None:
        """Show what has come; a cursor that was at the end stays at it."""
        if self.grown():
            if self.position >= self._history.num_steps:
                self.read_on()
                self.move(self.num_steps)
            self.refresh()


LOOK = 0.3  # seconds between two looks
_going: set[asyncio.Task] = set()


async def _go_with_it(lab: weakref.ref[DriverLab], driver: TraceDriver) -> None:
    """Until nobody has the lab any more, or it shows another run."""
    while (there := lab()) is not None and there.driver is driver:
        there.go_with_it()
        there = None
        await asyncio.sleep(LOOK)
