"""The page that `save_html` writes, opened without kernel and network: stepped to its end and back, each picture
compared with what Python draws for that moment (which tests/viz compares with the runs themselves).

(The memory map's page is in test_tools.py, preemption's and the knobs' in files of their own.)
"""

import pytest
from test_other_labs import KERNEL, MARKS, PREFIX, SIDES

pytestmark = pytest.mark.browser

LABS = {
    "fragmentation": "from pagedlab.viz import fragmentation\nlab = fragmentation(moment=0)",
    "prefix": PREFIX + "lab = prefix_hits(llm, 'You help. Who is it').lab",
    "kernel": KERNEL + "lab = kernel_walk(llm)",
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
    context = browser.new_context(offline=True, viewport={"width": 1000, "height": 660})
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
        seen = page.evaluate(MARKS)
        seen.pop("step", None)  # which the front end writes
        assert seen == drawn(still), position
    context.close()
    assert not errors
