import sys
from pathlib import Path

import pytest

from pagedlab.bench.browser import BROWSER_ARGS
from pagedlab.viz.kit.style import STATIC

sys.path.insert(0, str(Path(__file__).parent))  # for runs.py and its like


@pytest.fixture(scope="session")
def ruler(chromium):
    """Measures texts in Chromium, see geometry.py."""
    from geometry import MEASURE
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, headless=True, args=BROWSER_ARGS)
        page = browser.new_page()
        css = (STATIC / "lab.css").read_text(encoding="utf-8")
        page.set_content(f"<style>{css}</style><div class='pagedlab'><svg></svg></div>")
        yield lambda texts: page.evaluate(MEASURE, texts)
        browser.close()
