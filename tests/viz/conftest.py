import sys
from pathlib import Path

import pytest

from pagedlab.viz.kit.style import STATIC

sys.path.insert(0, str(Path(__file__).parent))  # for runs.py and its like


@pytest.fixture(scope="session")
def ruler(browser):
    """Measures texts in Chromium, see geometry.py."""
    from geometry import MEASURE

    page = browser.new_page()
    css = (STATIC / "lab.css").read_text(encoding="utf-8")
    page.set_content(f"<style>{css}</style><div class='pagedlab'><svg></svg></div>")
    yield lambda texts: page.evaluate(MEASURE, texts)
    page.close()
