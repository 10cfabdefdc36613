"""The preemption lab in a real JupyterLab and on the exported page: stepped to the end and back, compared with Python's
picture (which tests/viz compares with replay)."""

import pytest
from test_other_labs import Lab, keep_pictures, marks_on

from pagedlab.trace import replay

pytestmark = pytest.mark.browser

ENGINES = """\
from pagedlab import LLM
from pagedlab.bench.preemption import overload
from pagedlab.viz import preemption
base = LLM("tiny-random", num_gpu_blocks_override=2)
prompts = [[(7 * i + 3 * j) % 200 + 1 for j in range(n)] for i, n in enumerate((12, 14, 10, 11, 8))]
left, right = (overload(base, how, prompts) for how in ("recompute", "swap"))
"""
LIVE = ENGINES + "lab = preemption(left, right)\n"


def own(id):
    """The front end writes the step, and times are each run's own."""
    return id == "step" or id.startswith("price.seconds.")


def check(page, lab):
    """What is on the page is what Python draws, and what replay says."""
    strip = lab.strip()
    drawn = {m.id: [m.cls, m.text if m.cls.startswith("text") else ""] for m in [*lab.marks(), *strip.marks]}
    seen = marks_on(page)
    assert {k: v for k, v in seen.items() if not own(k)} == {k: v for k, v in drawn.items() if not own(k)}
    assert seen["step"][1].startswith(f"step {lab.position} of ")
    for side, driver in enumerate(lab.drivers):
        state = replay(driver.trace, driver.num_events(driver.position))
        assert seen[f"lane.{side}.0.n"][1] == str(len(state.running))
        assert seen[f"lane.{side}.1.n"][1] == str(len(state.waiting) + len(state.swapped))
        assert seen[f"pool.{side}.free"][1].startswith(f"{len(state.free)} of 18 blocks free")


def test_the_preemption_lab(jupyter, lab_page, artifacts):
    made = {}
    exec(LIVE, made)
    lab = made["lab"]
    lab_page.open(jupyter.notebook("preemption.ipynb", LIVE + "lab"))
    lab_page.run_all()
    page = Lab(lab_page, "Preemption")
    page.wait(1)
    check(lab_page.page, lab)
    page.key("ArrowRight", 2)
    lab.forward()
    lab_page.page.locator("[data-id='who.4.1']").click()
    page.root.locator(".ask", has_text="You say E (swap)").wait_for()
    lab.predict("E", 1)
    check(lab_page.page, lab)
    page.key("ArrowRight", 3)
    lab.forward()
    assert "✓ E made room: admitted last. Score 1 of 1." in page.root.locator(".ask").inner_text()
    while lab.forward():  # both engines run
        page.key("ArrowRight", lab.position)
        check(lab_page.page, lab)
    assert "All requests are done" in page.root.locator(".go").inner_text()
    while lab.back():
        page.key("ArrowLeft", lab.position)
        check(lab_page.page, lab)
    page.key("End", lab.num_steps)
    lab.seek(lab.num_steps)
    lab_page.page.locator("[data-id='chip.C']").press("Enter")
    page.wait(lab.num_steps, "C")
    lab.select("C")
    check(lab_page.page, lab)
    page.root.locator("[data-do=more]").click()
    page.root.locator("[data-pane=victims]").click()
    page.root.locator(".pane table").wait_for()
    assert page.root.locator(".pane tr").count() == 7
    page.root.screenshot(path=artifacts / "preemption-victims.png")
    done = LIVE + "while lab.forward(): pass\nlab.seek(12)\nlab"
    keep_pictures(jupyter, lab_page, artifacts, "preemption", jupyter.notebook("preemption-2.ipynb", done))


def test_the_saved_page_steps_through_both_runs_without_a_kernel(browser, tmp_path, artifacts):
    made = {}
    exec(LIVE + "while lab.forward(): pass\nlab.seek(1)", made)
    lab = made["lab"]
    path, still = lab.save_html(tmp_path / "preemption.html"), lab.for_export()
    context = browser.new_context(offline=True, color_scheme="dark", viewport={"width": 1000, "height": 660})
    page = context.new_page()
    errors = []
    page.on("console", lambda message: message.type == "error" and errors.append(message.text))
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(path.as_uri())
    root = page.locator(".pagedlab")
    root.wait_for()
    for position in [*range(2, still.num_steps + 1), *range(still.num_steps - 1, -1, -1)]:
        root.press("ArrowRight" if position > still.position else "ArrowLeft")
        page.wait_for_function("p => document.querySelector('.pagedlab').dataset.position === String(p)", arg=position)
        still.seek(position)
        check(page, still)
    page.screenshot(path=artifacts / "preemption-saved.png")
    context.close()
    assert not errors
