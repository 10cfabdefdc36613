"""A pytest plugin for one run: writes what became of each notebook cell to the file that PAGEDLAB_NBVAL_RESULT names.

A JUnit file would not do: it shows an expected failure that passed as a pass. Where the run may use no TCP
(``confine.py``), the kernel is spoken to over sockets in its folder.
"""

from __future__ import annotations

import json
import os
import re
from functools import partial
from pathlib import Path

import nbval.kernel

from pagedlab.grading import confine

if confine.version() >= 4:
    # Named from the folder, because the whole name of a socket may have a hundred letters at most.
    nbval.kernel.KernelManager = partial(nbval.kernel.KernelManager, transport="ipc", ip="kernel")

_cells: dict[str, dict] = {}


def pytest_runtest_logreport(report) -> None:
    """Keep for each cell the worst of its phases; clean is a plain pass, neither expected nor skipped."""
    clean = report.outcome == "passed" and not hasattr(report, "wasxfail")
    cell = _cells.setdefault(report.nodeid.rpartition("::Cell ")[2], {"clean": True, "ran": False, "message": ""})
    cell["clean"] &= clean
    cell["ran"] |= report.when == "call"
    if not clean:
        cell["message"] = re.sub(r"\x1b\[[0-9;]*m", "", str(report.longreprtext))[-2000:]


def pytest_sessionfinish() -> None:
    target = Path(os.environ["PAGEDLAB_NBVAL_RESULT"])
    target.write_text(json.dumps(_cells), encoding="utf-8")
