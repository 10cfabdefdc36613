"""The static site: its pages are built from runs of all chapters, and work without a kernel or a network."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import sys
from itertools import cycle
from pathlib import Path

import build_site
import chapter_runs
import pytest
from saved_labs import check_readable

from pagedlab import kernels

ROOT, NOTEBOOKS = chapter_runs.ROOT, chapter_runs.NOTEBOOKS
CHAPTERS = [path.stem for path in sorted(NOTEBOOKS.glob("*.ipynb"))]
NUMBERS = [int(chapter[:2]) for chapter in CHAPTERS]
PAGES = {f"{chapter}.html" for chapter in CHAPTERS}
KERNEL = ROOT / "kernels" / "wgsl" / "ladder5_decode.wgsl"
NO_WEBGPU = "No available adapters."  # what Chromium says when a page asks
pytestmark = [pytest.mark.browser, pytest.mark.notebook, pytest.mark.slow]


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """The site's folder; a chapter's page comes into it by ``written``."""
    folder = tmp_path_factory.mktemp("site")
    build_site.write_around(folder, NUMBERS)
    return folder


@pytest.fixture
def written(chapter, site):
    """The page of ``chapter``."""
    path = site / f"{chapter}.html"
    if not path.exists():
        build_site.write_chapter(site, NOTEBOOKS / f"{chapter}.ipynb", chapter_runs.of(chapter), NUMBERS)
    return path


@pytest.fixture
def page(browser):
    context = browser.new_context(offline=True, viewport={"width": 1100, "height": 900})
    page = context.new_page()
    errors = []

    def note(message):
        if message.type in ("error", "warning") and message.text != NO_WEBGPU:
            errors.append(message.text)

    page.on("console", note)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("requestfailed", lambda request: errors.append(f"not found: {request.url}"))
    yield page
    context.close()
    assert not errors


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_chapters_page_has_labs_that_step_and_no_error(chapter, written, page, artifacts):
    page.goto(written.as_uri())
    labs = page.locator("div.pagedlab")
    assert labs.count() >= 1
    assert page.locator(".still > svg").count() == 0, "a lab did not come to life"
    stepped = 0
    for lab in labs.all():
        at, steps = (int(lab.get_attribute(name)) for name in ("data-position", "data-steps"))
        for key, there in (("End", steps), ("Home", 0), ("ArrowRight", min(1, steps))):
            lab.press(key)
            page.wait_for_function("([lab, at]) => +lab.dataset.position === at", arg=[lab.element_handle(), there])
        stepped += steps > 0
        assert 0 <= at <= steps
        # The knobs' steps are the runs that were made; it stands at the one whose memory is shown below it.
        is_board = lab.get_attribute("aria-label").startswith("Knobs")
        assert at < steps or steps <= 1 or is_board, "it opens at its end, where nothing can be done"
    assert stepped, "no lab of this page has a step to show"
    page.screenshot(path=artifacts / f"site-{chapter}.png", full_page=True)


@pytest.mark.parametrize("name", ["index", "one-page", "glossary", "map", "where-next", "eviction", "learners"])
def test_the_other_pages_open_and_their_links_lead_somewhere(name, site, page, artifacts):
    page.goto((site / f"{name}.html").as_uri())
    assert page.locator("h1").count() == 1
    page.screenshot(path=artifacts / f"site-{name}.png", full_page=True)
    pictures = page.eval_on_selector_all("img", "pictures => pictures.map(one => one.naturalWidth)")
    assert all(pictures) and bool(pictures) == (name == "one-page")
    links = page.eval_on_selector_all("a", "links => links.map(a => a.getAttribute('href'))")
    assert links
    for link in links:
        file = link.partition("#")[0]
        assert link.startswith(("http", "#")) or file in PAGES or (site / file).exists(), link


@pytest.mark.parametrize("chapter, theme", list(zip(CHAPTERS, cycle(["light", "dark"]))))  # sizes do not depend on it
def test_on_a_phone_a_chapter_can_be_read_and_its_labs_reached(chapter, theme, written, browser, artifacts):
    context = browser.new_context(offline=True, viewport={"width": 390, "height": 844}, color_scheme=theme)
    page = context.new_page()
    page.goto(written.as_uri())
    page.locator(".pagedlab").last.wait_for()
    page.wait_for_timeout(500)  # charts have been drawn
    check_readable(page, least_texts=100)
    page.screenshot(path=artifacts / f"phone-{chapter}-{theme}.png", full_page=True)
    context.close()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", ["index", "one-page", "glossary", "map", "where-next", "eviction", "learners"])
def test_on_a_phone_the_pages_do_not_scroll_sideways_and_a_picture_can_be_read(name, theme, site, browser, artifacts):
    context = browser.new_context(offline=True, viewport={"width": 390, "height": 844}, color_scheme=theme)
    page = context.new_page()
    page.goto((site / f"{name}.html").as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    for picture in page.locator("main img").all():
        assert picture.bounding_box()["width"] >= 600, "it is scrolled to, not shrunk to nothing"
    page.screenshot(path=artifacts / f"phone-{name}-{theme}.png", full_page=True)
    context.close()


@pytest.mark.skipif(not kernels.available(), reason=kernels.WHY_NOT)
@pytest.mark.parametrize("chapter", ["05_inside_the_kernel"])
def test_the_page_about_the_kernel_has_what_its_button_runs(chapter, written):
    text = written.read_text(encoding="utf-8")
    labs = [json.loads(data) for data in re.findall(r'<script[^>]*"pictures"[^>]*>(.*?)</script>', text, flags=re.S)]
    again = [lab["again"] for lab in labs if "again" in lab]
    assert again and all(one["wgsl"].endswith(KERNEL.read_text(encoding="utf-8")) for one in again)
    for one in again:
        blocks = {name: len(base64.b64decode(one[name])) for name in ("key", "value")}
        assert blocks["key"] == blocks["value"] == len(one["used"]) * 16 * 3 * 64 * 4  # fp32
        assert all(read == one["table"] for read in one["read"]) and len(one["table"]) == -(-one["context"] // 16)


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_page_names_nothing_of_the_machine_and_its_links_lead_somewhere(chapter, written, site):
    text = written.read_text(encoding="utf-8")
    assert str(ROOT) not in text and json.dumps(str(Path.home())) not in text
    assert not set(build_site.dead_links(written)) - PAGES


def test_the_pages_around_the_chapters_name_nothing_of_the_machine(site):
    for path in set(site.glob("*.html")) - {site / name for name in PAGES}:
        text = path.read_text(encoding="utf-8")
        assert str(ROOT) not in text and json.dumps(str(Path.home())) not in text, path.name


def test_the_command_writes_the_chapters_that_are_asked_for(tmp_path):
    command = [sys.executable, "tools/build_site.py", "--to", tmp_path / "site", "--jobs", "2", "2", "10"]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert built.returncode == 0, built.stderr[-3000:]
    made = {path.name for path in (tmp_path / "site").glob("*.html")}
    assert made & PAGES == {name for name in PAGES if name.startswith(("02", "10"))} and "index.html" in made
