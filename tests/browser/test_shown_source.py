"""Source that a chapter shows: a long line stays one line, and can be scrolled to."""

import pytest

pytestmark = pytest.mark.browser

SHOW = """\
from pagedlab.executor.pool_size import plan_pool
from pagedlab.viz.lesson import show_source
show_source(plan_pool)"""
# Of the block that shows it: its text, how many lines high it is, and how wide it is inside and outside.
SEEN = """(pre) => { const style = getComputedStyle(pre);
  return { text: pre.textContent.trimEnd(), lines: pre.scrollHeight / parseFloat(style.lineHeight),
           inside: pre.scrollWidth, outside: pre.clientWidth, page: document.documentElement.scrollWidth,
           colour: style.color, behind: style.backgroundColor, first: pre.scrollLeft }; }"""


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1380, 900])
def test_a_long_line_of_shown_source_is_never_broken_and_can_be_scrolled_to(lab_page, jupyter, artifacts, theme, width):
    page = lab_page.page
    page.set_viewport_size({"width": width, "height": 900})
    jupyter.theme(theme)
    lab_page.open(jupyter.notebook("source.ipynb", SHOW))
    lab_page.run_all()
    pre = page.locator(".jp-OutputArea-output .highlight pre")
    pre.wait_for()
    seen = pre.evaluate(SEEN)
    lines = seen["text"].splitlines()
    assert max(map(len, lines)) > 100
    assert round(seen["lines"]) in (len(lines), len(lines) + 1), "each line of the source is one line high"
    pre.screenshot(path=artifacts / f"source-{theme}-{width}.png")
    if width == 900:
        assert seen["inside"] > seen["outside"], "here the longest line does not fit"
        pre.evaluate("(pre) => { pre.scrollLeft = 1e6; }")
        assert pre.evaluate("(pre) => pre.scrollLeft") == seen["inside"] - seen["outside"]
        assert page.evaluate("document.documentElement.scrollWidth") <= width, "the page itself does not scroll"
    jupyter.theme("light")
