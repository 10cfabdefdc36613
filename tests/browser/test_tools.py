"""What is folded away in the memory map, and the page that needs no kernel, in a real browser."""

import pytest
from test_memory_map import LIVE, SAVE, Lab, check

from pagedlab.trace import TraceDriver, load, replay

pytestmark = pytest.mark.browser
MARK = """([id]) => { const r = document.querySelector(`.pagedlab [data-id="${id}"]`).getBoundingClientRect();
                      return [r.x + r.width / 2, r.y + r.height / 2]; }"""


def text_of(lab_page, id):
    return lab_page.page.locator(f'.pagedlab [data-id="{id}"]').text_content()


def test_an_entry_is_dragged_to_another_block_and_undone(jupyter, lab_page, artifacts):
    lab_page.open(jupyter.notebook("grab.ipynb", LIVE + "lab", SAVE))
    lab_page.run_all()
    page, lab = lab_page.page, Lab(lab_page.page)
    lab.wait(1)
    assert page.locator(".pagedlab .tools").is_hidden() and page.locator(".pagedlab .pane").is_hidden()
    honest = lab.picture()
    x, y = page.evaluate(MARK, ["table.0"])
    page.mouse.move(x, y)
    page.mouse.down()
    x, y = page.evaluate(MARK, ["block.4"])
    page.mouse.move(x, y, steps=6)
    page.mouse.up()
    page.wait_for_function("() => document.querySelector('.pagedlab [data-id=\"table.0.p\"]').textContent === '#4'")
    lab.press("step")
    lab.wait(2)
    assert "edited by you" in text_of(lab_page, "badge.text")
    edited = lab.picture()
    lab.press("more")
    page.locator(".pagedlab [data-pane=grab]").click()
    page.locator(".pagedlab .pane .alarm").first.wait_for()
    assert "not its own" in page.locator(".pagedlab .pane").inner_text()
    page.wait_for_timeout(400)
    page.screenshot(path=artifacts / "memory-map-edited.png")
    lab_page.run_cell(1)
    trace = load(jupyter.root / "run.jsonl.gz")
    check(edited, replay(trace))
    page.locator(".pagedlab [data-act=undo]").click()
    lab.wait(1)
    assert lab.picture()["marks"].keys() == honest["marks"].keys()
    assert "edited by you" not in text_of(lab_page, "badge.text")
    # By keyboard alone: choose the entry and the block, press Enter.
    page.locator(".pagedlab .pane [name=entry]").select_option(index=0)
    page.locator(".pagedlab .pane [name=block]").select_option("4")
    page.locator(".pagedlab .pane form button").focus()
    page.keyboard.press("Enter")
    page.wait_for_function("() => document.querySelector('.pagedlab [data-id=\"table.0.p\"]').textContent === '#4'")


def test_code_branch_and_follow_unfold(jupyter, lab_page, artifacts):
    lab_page.open(jupyter.notebook("fold.ipynb", LIVE + "lab"))
    lab_page.run_all()
    page, lab = lab_page.page, Lab(lab_page.page)
    lab.wait(1)
    lab.press("more")
    page.locator(".pagedlab [data-pane=code]").click()
    page.locator(".pagedlab .pane pre .marked").first.wait_for()
    page.wait_for_timeout(300)
    page.screenshot(path=artifacts / "memory-map-code.png")
    lab.press("step")
    lab.wait(2)
    assert "def " in page.locator(".pagedlab .pane pre").inner_text()
    page.locator(".pagedlab [data-pane=follow]").click()
    page.locator(".pagedlab .pane input").fill("1")
    page.keyboard.press("Enter")
    page.locator(".pagedlab .pane table").wait_for()
    assert "handed out to" in page.locator(".pagedlab .pane").inner_text()
    page.locator(".pagedlab [data-pane=branch]").click()
    page.locator(".pagedlab .pane [name=prompt]").fill("and one more")
    page.locator(".pagedlab .pane form button").click()
    page.locator(".pagedlab .pane table").wait_for()
    assert "Memory is not the same from step 3 on" in page.locator(".pagedlab .pane").inner_text()
    page.locator(".pagedlab .pane [data-act=swap]").click()
    page.wait_for_function(
        "() => document.querySelector('.pagedlab [data-id=\"badge.text\"]').textContent.includes('branched at step 2')"
    )
    page.screenshot(path=artifacts / "memory-map-branch.png")
    lab.press("step")
    lab.wait(3)
    assert "chip.C" in lab.picture()["marks"]
    lab.press("more")
    assert page.locator(".pagedlab .pane").is_hidden()


def test_the_saved_page_steps_through_the_run_without_a_kernel(browser, tmp_path, artifacts):
    from pagedlab import LLM, SamplingParams
    from pagedlab.viz import memory_map

    llm = LLM("tiny-random", record=True, block_size=4, num_gpu_blocks_override=12)
    for prompt in ("Hi there", "Hello"):
        llm.add_request(prompt, SamplingParams(max_tokens=6, ignore_eos=True))
    lab = memory_map(llm, select="A")
    lab.forward(20)
    lab.seek(1)
    path = lab.save_html(tmp_path / "run.html")
    context = browser.new_context(offline=True, color_scheme="dark", viewport={"width": 1000, "height": 640})
    page = context.new_page()
    errors = []
    page.on("console", lambda message: message.type == "error" and errors.append(message.text))
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(path.as_uri())
    shown = Lab(page)
    shown.wait(1)
    driver = TraceDriver(llm.trace)
    for position in [*range(2, driver.num_steps + 1), *range(driver.num_steps - 1, 0, -1)]:
        shown.press("step" if position > shown.picture()["position"] else "back")
        shown.wait(position)
        picture = shown.picture()
        driver.seek(position)
        if driver.state().tables.get("A"):
            check(picture, driver.state())
        assert picture["marks"]["badge.text"]["text"].startswith("recorded · CPU")
    shown.root.locator('[data-id="chip.B"]').click()
    page.wait_for_function("() => document.querySelector('.pagedlab').dataset.selected === 'B'")
    assert page.locator("[data-do=more]").is_hidden()
    page.wait_for_timeout(300)
    page.screenshot(path=artifacts / "memory-map-saved.png")
    context.close()
    assert not errors
