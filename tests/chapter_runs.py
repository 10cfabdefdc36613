"""A chapter runs once in `make test`: what nbval ran is what the tests of the site open as a page.

A plugin of pytest (``tests/conftest.py`` registers it): a chapter's cells come before the tests of its page, in the
same worker.
"""

from __future__ import annotations

import re
import sys
import tempfile
from copy import deepcopy
from pathlib import Path

import nbformat
import pytest
from nbval.plugin import IPyNbCell

from pagedlab.viz import published

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = ROOT / "notebooks"
sys.path.insert(0, str(ROOT / "tools"))
PAGE = re.compile(r"tests/browser/test_site\.py::.*\[(\d\d_\w+)(?:-\w+)?\]$")

_runs: dict[str, nbformat.NotebookNode] = {}


def of(chapter: str) -> nbformat.NotebookNode:
    """A run of ``NN_name``, as its page shows it: nbval's, if that was in this process."""
    import build_site

    if chapter not in _runs:
        _runs[chapter] = build_site.run(NOTEBOOKS / f"{chapter}.ipynb")
    return deepcopy(_runs[chapter])


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: bool(PAGE.search(item.nodeid)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    from xdist.scheduler import LoadFileScheduling

    class ChapterWithItsPage(LoadFileScheduling):
        def _split_scope(self, nodeid):
            page = PAGE.search(nodeid)
            return f"notebooks/{page[1]}.ipynb" if page else super()._split_scope(nodeid)

    return ChapterWithItsPage(config, log) if config.getoption("dist") == "loadfile" else None


def is_of_a_chapter(item) -> bool:
    return isinstance(item, IPyNbCell) and item.path.parent == NOTEBOOKS


def execute(item, source: str) -> None:
    kernel = item.parent.kernel
    message = kernel.execute_cell_input(source, allow_stdin=False)
    kernel.await_reply(message, timeout=300)
    kernel.await_idle(message, timeout=30)


@pytest.hookimpl(trylast=True)
def pytest_runtest_setup(item):
    """Before the first cell: its kernel is there, as pytest's own setup has run."""
    if is_of_a_chapter(item) and item.cell_num == 0:
        execute(item, published.WATCH)


def pytest_runtest_teardown(item, nextitem):
    """After the last cell, while its kernel is still there. Where one is missing, the page gets a run of its own."""
    if not is_of_a_chapter(item) or nextitem is not None and nextitem.parent is item.parent:
        return
    import build_site

    cells = [other for other in item.session.items if other.parent is item.parent]
    notebook = deepcopy(item.parent.nb)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    if len(cells) < len(code) or any(cell.test_outputs is None for cell in cells):
        return
    for cell, ran in zip(code, cells, strict=True):
        cell.outputs = [nbformat.from_dict(output) for output in ran.test_outputs]
    with tempfile.TemporaryDirectory() as folder:
        execute(item, published.PUBLISH.format(folder))
        _runs[item.path.stem] = build_site.of_a_page(notebook, Path(folder))
