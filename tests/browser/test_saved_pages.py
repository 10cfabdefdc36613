"""The page that `save_html` writes, opened without kernel and network: stepped to its end and back, each picture
compared with what Python draws for that moment (which tests/viz compares with the runs themselves).

(The memory map's page is in test_tools.py, preemption's and the knobs' in files of their own.)
"""

import pytest
from test_other_labs import KERNEL, PREFIX, SIDES, marks_on
from test_token_budget_in_a_browser import LANES
from test_token_budget_in_a_browser import LIVE as BUDGET

pytestmark = pytest.mark.browser

TO_THE_END = "\nwhile lab.forward(): pass"
LABS = {
    "fragmentation": "from pagedlab.viz import fragmentation\nlab = fragmentation(moment=0)",
    "prefix": PREFIX + "lab = prefix_hits(llm, 'You help. Who is it').lab",
    "kernel": KERNEL + "lab = kernel_walk(llm)",
    "token budget": BUDGET.replace("AHEAD", "False") + TO_THE_END + "\nlab.seek(1)",
    "plan and run": BUDGET.replace("AHEAD", "True") + LANES + TO_THE_END + "\nlab.seek(1)",
    "side by side": SIDES + "lab = step_both(side_by_side(golden('sched-02')), step=0)",
    "side by side that differs": SIDES
    + "lab = step_both(side_by_side(golden('sched-02'), block_pool=AllToTheTail), step=0)\nlab.seek(lab.num_steps)",
}


def drawn(lab):
    strip = lab.strip()
    marks = [*lab.marks(), *(strip.marks if strip else [])]
    return {m.id: [m.cls, m.text if m.cls.startswith("text") else ""] for m in marks if m.id != "step"}


@pytest.mark.parametrize("name", LABS)
def test_a_saved_page_steps_to_its_end_and_back(browser, tmp_path, name):
    made = {}
    exec(LABS[name], made)
    lab = made["lab"]
    path, still = lab.save_html(tmp_path / "lab.html"), lab.for_export()
    if still.position == still.num_steps:
        still.rewind()  # where there is nothing more to do, no page opens
    context = browser.new_context(offline=True, viewport={"width": 1000, "height": 660}, reduced_motion="reduce")
    page, errors = context.new_page(), []
    page.on("console", lambda message: message.type == "error" and errors.append(message.text))
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(path.as_uri())
    root = page.locator(".pagedlab")
    root.wait_for()
    assert still.num_steps > 3
    for position in [*range(still.position, still.num_steps + 1), *range(still.num_steps - 1, -1, -1)]:
        if position != still.position:
            root.press("ArrowRight" if position > still.position else "ArrowLeft")
        page.wait_for_function("p => document.querySelector('.pagedlab').dataset.position === String(p)", arg=position)
        still.seek(position)
        seen = marks_on(page)
        seen.pop("step", None)  # which the front end writes
        assert seen == drawn(still), position
    context.close()
    assert not errors


RIGHT_TO_LEFT = """
from pagedlab import LLM, SamplingParams
from pagedlab.viz import memory_map
llm = LLM("smollm2", record=True, num_gpu_blocks_override=12, block_size=4)
llm.add_request("שלום עולם 12 (مرحبا)", SamplingParams(max_tokens=3, ignore_eos=True))
lab = memory_map(llm)
"""
# Where each text is drawn, rounded: of the live lab or of the still picture.
PLACES = """() => [...document.querySelectorAll("svg text")].map((e) => { const r = e.getBoundingClientRect();
  return [e.textContent, Math.round(r.x), Math.round(r.y), Math.round(r.width)]; })"""


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "no scripts"])
def test_a_page_from_right_to_left_shows_the_same_picture(browser, tmp_path, artifacts, scripts):
    made = {}
    exec(RIGHT_TO_LEFT, made)
    path = made["lab"].save_html(tmp_path / "lab.html")
    page_text = path.read_text(encoding="utf-8")
    turned = tmp_path / "turned.html"
    turned.write_text(page_text.replace('<html lang="en">', '<html lang="ar" dir="rtl">'), encoding="utf-8")
    context = browser.new_context(java_script_enabled=scripts, offline=True, viewport={"width": 992, "height": 660})
    page, found = context.new_page(), []
    for one in (path, turned):
        page.goto(one.as_uri())
        page.locator(".pagedlab svg" if scripts else ".still > svg").first.wait_for()
        page.wait_for_timeout(400)  # what moves has arrived
        found.append(page.evaluate(PLACES) if scripts else page.screenshot())
        page.screenshot(path=artifacts / f"page-{one.stem}-{scripts}.png")
    if scripts:
        assert len(found[0]) > 40
    assert found[0] == found[1]
    context.close()


@pytest.mark.parametrize("name", LABS)
def test_without_scripts_the_picture_stands_there_and_with_them_the_lab_takes_its_place(browser, tmp_path, name):
    made = {}
    exec(LABS[name], made)
    path = made["lab"].save_html(tmp_path / "lab.html")
    for scripts in (False, True):
        context = browser.new_context(java_script_enabled=scripts, offline=True, viewport={"width": 700, "height": 660})
        page = context.new_page()
        page.goto(path.as_uri())
        still, live = page.locator(".still > svg"), page.locator(".still > .pagedlab")
        (live if scripts else still).wait_for()
        assert (still.count(), live.count()) == ((0, 1) if scripts else (1, 0))
        box = (live if scripts else still).bounding_box()
        assert 600 < box["width"] <= 700 and box["height"] > 200
        context.close()
