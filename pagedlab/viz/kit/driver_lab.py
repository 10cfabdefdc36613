"""A lab over the steps of a run: where it gets its run from, and what it says of its cursor."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

from pagedlab.errors import PagedlabError
from pagedlab.trace import Trace, TraceDriver, load
from pagedlab.trace.store import check_header
from pagedlab.viz.kit.widget import Lab


def as_driver(what: Any) -> TraceDriver:
    """A cursor of its own over the run, whatever stands for it."""
    if isinstance(what, TraceDriver):
        check_header(what.trace.header, "This trace")
        return what
    if isinstance(what, Trace):
        check_header(what.header, "This trace")
        return TraceDriver(what)
    if isinstance(what, (str, PathLike)):
        return TraceDriver(load(Path(what)))
    if hasattr(what, "trace") and hasattr(what, "step"):
        from pagedlab.engine import EngineDriver

        return EngineDriver(what)
    raise PagedlabError(
        f"A lab cannot show a {type(what).__name__}; give it an LLM made with record=True, a driver, a Trace, "
        "or the path of a saved one."
    )


class DriverLab(Lab):
    """A lab whose cursor is a driver's. The lab sets ``driver`` before it calls ``super().__init__()``.

    Labs that were given one driver share its cursor and go through the run together; labs that were given one engine
    have a cursor each, and all see the run grow.
    """

    driver: TraceDriver

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
        """Is there an engine behind it? A trace played back is a recording, even in the process that made it."""
        return type(self.driver) is not TraceDriver and bool(self.trace.header.get("live"))
