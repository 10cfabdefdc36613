"""Where a lab gets its run from: an engine, a driver, a trace or a file."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

from pagedlab.errors import PagedlabError
from pagedlab.trace import Trace, TraceDriver, load
from pagedlab.trace.store import check_header


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
    if hasattr(what, "trace") and hasattr(what, "step") and not isinstance(what, type):
        from pagedlab.engine import EngineDriver

        return EngineDriver(what)
    raise PagedlabError(
        f"A lab cannot show a {type(what).__name__}; give it an LLM made with record=True, a driver, a Trace, "
        "or the path of a saved one."
    )


def with_one_table(what: Any) -> TraceDriver:
    """``as_driver``, for a lab that knows one block table a request. Raises PagedlabError where there are several."""
    driver = as_driver(what)
    if "windows" in driver.trace.header["config"]:
        raise PagedlabError(
            "This run's model has layers with a sliding window, and block tables of their own for them, which this lab "
            "does not show; memory_map(...) does."
        )
    return driver


def recorded(driver: TraceDriver) -> TraceDriver:
    """A cursor of its own over what is known of the run by now, with no engine behind it."""
    return TraceDriver(Trace(driver.trace.header | {"live": False}, driver.trace.events))
