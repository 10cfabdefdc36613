"""The kernel behind a lab is gone: the lab says what to do, and a stored notebook shows the picture that it has."""

import urllib.request

import pytest
from test_memory_map import LIVE

pytestmark = pytest.mark.browser
KERNEL = "window.jupyterapp.shell.currentWidget.sessionContext.session.kernel"
# Its status is not asked for: behind JupyterLab's back it may stay at "starting", though the kernel works.
UNTIL_IT_ANSWERS = f"""async () => {{
  const a_while = () => new Promise((done) => setTimeout(() => done(false), 5000));
  while (!await Promise.race([{KERNEL}.requestKernelInfo().then(() => true), a_while()]));
}}"""
AGAIN = "() => /[Rr]un the cell again/.test(document.querySelector('.pagedlab .ask').textContent)"


def shown(jupyter, lab_page, name):
    lab_page.open(jupyter.notebook(name, LIVE + "lab"))
    lab_page.run_all()
    lab_page.page.locator(".pagedlab").wait_for()
    lab_page.wait_idle()
    return lab_page.page


def by_jupyterlab(jupyter, page):
    page.evaluate(f"() => {KERNEL}.restart()")


def behind_its_back(jupyter, page):
    url = jupyter.url(f"api/kernels/{page.evaluate(f'() => {KERNEL}.id')}/restart")
    urllib.request.urlopen(urllib.request.Request(url, method="POST", data=b"{}")).close()


@pytest.mark.parametrize("restart", [by_jupyterlab, behind_its_back])
def test_after_a_restart_the_lab_says_to_run_the_cell_again_and_that_helps(jupyter, lab_page, restart):
    page = shown(jupyter, lab_page, "restarted.ipynb")
    restart(jupyter, page)
    page.wait_for_timeout(3000)
    page.evaluate(UNTIL_IT_ANSWERS)
    page.locator(".pagedlab .go").click()
    page.wait_for_function(AGAIN, timeout=30_000)
    assert page.locator(".pagedlab svg [data-id]").count() > 20  # the picture is still there
    lab_page.run_all()
    page.wait_for_function(f"() => !({AGAIN})()")
    page.locator(".pagedlab .go").click()
    page.locator(".pagedlab[data-position='2']").wait_for()


BAR = """() => { const bar = document.querySelector(".pagedlab .bar");
  const box = (e) => { const r = e.getBoundingClientRect(); return [r.left, r.top, r.right, r.bottom]; };
  return { bar: box(bar), parts: [...bar.children].map(box), ask: bar.querySelector(".ask").clientWidth,
           cut: [...bar.children].filter((e) => e.scrollWidth > e.clientWidth + 2).map((e) => e.textContent) }; }"""


@pytest.mark.parametrize("width", [1380, 900, 760])
def test_what_a_lab_says_and_its_buttons_can_be_read_in_a_narrow_notebook(jupyter, lab_page, artifacts, width):
    page = lab_page.page
    page.set_viewport_size({"width": width, "height": 900})
    shown(jupyter, lab_page, "narrow.ipynb")
    page.evaluate("() => { document.querySelector('.pagedlab .ask').textContent = 'Run the cell again. '.repeat(4); }")
    seen = page.evaluate(BAR)
    page.locator(".pagedlab").screenshot(path=artifacts / f"narrow-{width}.png")
    assert seen["ask"] >= 150 and not seen["cut"]
    left, top, right, bottom = seen["bar"]
    for i, (a, b, c, d) in enumerate(seen["parts"]):
        assert left - 1 <= a and c <= right + 1 and top - 1 <= b and d <= bottom + 1
        assert not any(a < g - 1 and e < c - 1 and b < h - 1 and f < d - 1 for e, f, g, h in seen["parts"][:i])


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_stored_notebook_shows_its_picture_and_says_to_run_the_cell_again(jupyter, lab_page, artifacts, theme):
    jupyter.theme(theme)
    page = shown(jupyter, lab_page, "stored.ipynb")
    page.evaluate("() => window.jupyterapp.commands.execute('docmanager:save')")
    page.evaluate("() => window.jupyterapp.serviceManager.sessions.shutdownAll()")
    page.goto("about:blank")
    lab_page.open("stored.ipynb")
    picture = page.locator(".jp-OutputArea-output img")
    picture.wait_for()
    box = picture.bounding_box()
    assert box["width"] > 600 and box["height"] > 300
    assert picture.evaluate("e => e.complete && e.naturalWidth") == 960
    text = page.locator(".jp-OutputArea-output").inner_text()
    assert "Run the cell again" in text and "model not found" not in text
    page.screenshot(path=artifacts / f"stored-{theme}.png")
    # ipywidgets writes it to the console, for which we cannot help.
    lab_page.errors[:] = [error for error in lab_page.errors if "widget model not found" not in error]
    lab_page.run_all()
    page.locator(".pagedlab").wait_for()
    assert picture.count() == 0
    jupyter.theme("light")


@pytest.mark.parametrize("width", [1380, 900])
def test_controls_beside_a_lab_stay_on_a_narrow_page(jupyter, lab_page, artifacts, width):
    page = lab_page.page
    page.set_viewport_size({"width": width, "height": 900})
    lab_page.open(jupyter.notebook("knobs.ipynb", "from pagedlab.viz import knobs\nknobs()"))
    lab_page.run_all()
    page.locator(".pagedlab").first.wait_for()
    right = page.locator(".pagedlab-controls").first.evaluate("e => e.getBoundingClientRect().right")
    sliders = page.locator(".pagedlab-controls .slider-container")
    assert sliders.count() >= 2
    for slider in sliders.all():
        box = slider.bounding_box()
        assert box["width"] > 60 and box["x"] + box["width"] <= right + 1
    for part in page.locator(".pagedlab-controls .widget-hbox > *").all():
        box = part.bounding_box()
        assert box is None or box["x"] + box["width"] <= right + 1
    page.screenshot(path=artifacts / f"knobs-{width}.png")
