"""A real JupyterLab and a real browser, shared by the tests here.

`jupyter` is the running server, `lab_page` a browser page in it. A test writes a notebook, opens it, runs its cells,
and fails when the page wrote an error to the console.
"""

import shutil
import sys
from pathlib import Path

import pytest

from pagedlab.bench.browser import Jupyter, LabPage

sys.path.insert(0, str(Path(__file__).parent))  # tests here share what test_memory_map.py has


@pytest.fixture(scope="session")
def jupyter(chromium, tmp_path_factory):
    server = Jupyter(tmp_path_factory.mktemp("jupyter"))
    yield server
    server.stop()
    shutil.rmtree(server.root, ignore_errors=True)


@pytest.fixture
def lab_page(jupyter, browser, artifacts, request):
    """A fresh page; the test fails if the page wrote an error to its console. Its last picture is kept."""
    context = browser.new_context(viewport={"width": 1380, "height": 900})
    page = context.new_page()
    lab = LabPage(jupyter, page)
    yield lab
    page.screenshot(path=artifacts / f"{request.node.name}.png")
    context.close()
    assert not lab.errors, "errors in the browser's console:\n" + "\n".join(lab.errors)
