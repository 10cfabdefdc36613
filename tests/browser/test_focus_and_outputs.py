"""Two things that only a page shows: the ring around what has the focus, and what a cell leaves above its lab."""

import pytest

pytestmark = pytest.mark.browser

RUN = """\
from pagedlab import LLM, SamplingParams
llm = LLM("tiny-random", record=True, block_size=4, num_gpu_blocks_override=14)
llm.add_request("Hi there, you, who", SamplingParams(max_tokens=6, ignore_eos=True))
llm.step()
"""
LABS = {
    "memory map": RUN + "from pagedlab.viz import memory_map\nmemory_map(llm)",
    "kernel": RUN + "from pagedlab.viz import kernel_walk\nkernel_walk(llm)",
    "fragmentation": "from pagedlab.viz import fragmentation\nfragmentation(moment=0)",
    "side by side": "from pagedlab.parity.side_by_side import golden, side_by_side\n"
    "from pagedlab.viz import step_both\nstep_both(side_by_side(golden('sched-02')), step=0)",
    "knobs": "from pagedlab.viz import knobs\nknobs()",
}
# The mark that has the focus, and the two lines around it.
RING = """() => { const mark = document.activeElement, ring = mark.closest("svg").querySelector(".ring");
  const box = (e) => { const r = e.getBoundingClientRect(); return [r.x, r.y, r.width, r.height]; };
  const [below, line] = ring.children;
  return { mark: box(mark), line: box(line), shown: ring.style.display !== "none",
           last: ring === ring.parentElement.lastElementChild,
           strokes: [below, line].map((e) => [getComputedStyle(e).stroke, getComputedStyle(e).strokeWidth]) }; }"""
OUTPUTS = """() => window.jupyterapp.shell.currentWidget.content.widgets.flatMap((cell) =>
  Array.from({ length: cell.model.outputs.length }, (_, i) => cell.model.outputs.get(i).toJSON()))"""


@pytest.mark.parametrize("name", LABS)
def test_a_cell_leaves_nothing_on_stderr_and_no_dead_bar(lab_page, jupyter, name):
    lab_page.open(jupyter.notebook("outputs.ipynb", LABS[name]))
    lab_page.run_all()
    lab_page.page.locator(".pagedlab").first.wait_for()
    lab_page.wait_idle()
    outputs = lab_page.page.evaluate(OUTPUTS)
    assert [o for o in outputs if o["output_type"] == "stream"] == []
    *before, lab = outputs
    assert "application/vnd.jupyter.widget-view+json" in lab["data"]
    assert [o["data"] for o in before] == [{"text/html": ""}] * len(before)  # a bar that was there and has gone
    assert len(before) <= 1


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_ring_lies_around_the_mark_that_has_the_focus_and_over_all_others(lab_page, jupyter, artifacts, theme):
    jupyter.theme(theme)
    lab_page.open(jupyter.notebook("focus.ipynb", LABS["memory map"]))
    lab_page.run_all()
    page, root = lab_page.page, lab_page.page.locator(".pagedlab")
    root.wait_for()
    page.wait_for_timeout(500)
    assert root.locator(".ring").evaluate("e => e.style.display") == "none"
    root.focus()
    for keys in (["ArrowDown"], ["ArrowDown"]):
        for key in keys:
            page.keyboard.press(key)
        seen = page.evaluate(RING)
        assert seen["shown"] and seen["last"]
        (x, y, w, h), (left, top, wide, tall) = seen["mark"], seen["line"]
        assert left < x and top < y and left + wide > x + w and top + tall > y + h
        (below, wider), (line, width) = seen["strokes"]
        assert below != line and float(wider[:-2]) > float(width[:-2]) >= 3
    page.keyboard.press("Tab")
    page.keyboard.press("Shift+Tab")
    root.screenshot(path=artifacts / f"focus-{theme}.png")
    page.keyboard.press("Tab")  # a button: no mark has the focus
    page.keyboard.press("Tab")
    assert root.locator(".ring").evaluate("e => e.style.display") == "none"
    jupyter.theme("light")
