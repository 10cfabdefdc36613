"""The lab of shares in a real JupyterLab: a number is pointed at, the engine's own next step answers, and plan and run
stand beside each other."""

import warnings

import pytest
from test_other_labs import Lab, keep_pictures, marks_on

from pagedlab.viz import plan_and_run

pytestmark = pytest.mark.browser

LIVE = """
import warnings
warnings.simplefilter("ignore", RuntimeWarning)
from pagedlab import LLM, SamplingParams
from pagedlab.viz import plan_and_run, token_budget
llm = LLM("tiny-random", record=True, block_size=4, num_gpu_blocks_override=60, max_num_batched_tokens=24,
          async_scheduling=AHEAD)
for n in (9, 7, 5):
    llm.add_request([n] * n, SamplingParams(max_tokens=8, ignore_eos=True))
llm.step()
llm.add_request([50] * 50, SamplingParams(max_tokens=4, ignore_eos=True))
lab = token_budget(llm)
"""
LANES = "lab = plan_and_run(llm)\n"
TO_THE_END = "while lab.forward(): pass\n"


def made(ahead):
    names = {}
    with warnings.catch_warnings():
        exec(LIVE.replace("AHEAD", str(ahead)), names)
    return names["lab"]


def check(page, lab):
    """What is on the page is what Python draws, but for the step's own words, which the front end writes."""
    strip = lab.strip()
    drawn = {m.id: [m.cls, m.text if m.cls.startswith("text") else ""] for m in [*lab.marks(), *strip.marks]}
    seen = marks_on(page.page)
    assert (drawn.pop("step"), seen.pop("step")) and seen == drawn


def test_the_token_budget_lab(jupyter, lab_page, artifacts):
    cell = LIVE.replace("AHEAD", "False") + "lab"
    lab_page.open(jupyter.notebook("budget.ipynb", cell))
    lab_page.run_all()
    page, lab = Lab(lab_page, "Token budget"), made(False)
    check(page, lab)
    root = page.root
    assert "How many tokens of D" in root.inner_text()
    root.locator("[data-id='answer.50']").click()
    page.page.wait_for_function("() => document.querySelector('.pagedlab').innerText.includes('You say 50 of D')")
    lab.predict(50)
    check(page, lab)
    page.key("ArrowRight", 2)
    lab.forward()
    check(page, lab)
    assert "You said 50; 21 tokens of D ran in step 2. Score 0 of 1." in root.inner_text()
    root.screenshot(path=artifacts / "token-budget-answer.png")
    keep_pictures(jupyter, lab_page, artifacts, "token-budget", jupyter.notebook("budget-2.ipynb", cell))


def test_its_two_lanes_one_step_ahead(jupyter, lab_page, artifacts):
    cell = LIVE.replace("AHEAD", "True") + LANES + TO_THE_END + "lab.seek(1)\nlab"
    lab_page.open(jupyter.notebook("lanes.ipynb", cell))
    lab_page.run_all()
    lab = plan_and_run(made(True).driver.llm)
    while lab.forward():
        pass
    lab.seek(1)
    page = Lab(lab_page, "Plan and run")
    check(page, lab)
    for position in range(2, lab.num_steps + 1):
        lab.seek(position)
        page.key("ArrowRight", position)
        check(page, lab)
    lanes = cell.replace("lab.seek(1)", "lab.seek(6)")
    keep_pictures(jupyter, lab_page, artifacts, "token-budget-lanes", jupyter.notebook("lanes-2.ipynb", lanes))


def test_a_saved_page_answers_too(browser, tmp_path):
    lab = made(False)
    while lab.forward():
        pass
    lab.seek(2)
    path = lab.save_html(tmp_path / "budget.html")
    assert lab.position == 2
    context = browser.new_context(offline=True, viewport={"width": 1000, "height": 700}, reduced_motion="reduce")
    page = context.new_page()
    page.goto(path.as_uri())
    root = page.locator(".pagedlab")
    root.wait_for()
    assert "How many tokens of D" in root.inner_text()
    root.locator("[data-id='answer.29']").click()
    root.press("ArrowRight")
    page.wait_for_function("() => document.body.innerText.includes('You said 29; 21 tokens of D ran in step 3.')")
    context.close()
