"""The knobs lab in a real JupyterLab: controls turned, run by the button, the runs gone through, the map stepped."""

import pytest

pytestmark = pytest.mark.browser

SOURCE = "from pagedlab.viz import knobs\nlab = knobs()\n"


class Page:
    """The two labs on the page: the board above, the memory map below."""

    def __init__(self, page):
        self.page = page
        self.board = page.locator(".pagedlab[aria-label^='Knobs']")
        self.map = page.locator(".pagedlab[aria-label^='Memory map']")
        self.board.wait_for()

    def wait(self, lab, position):
        self.page.wait_for_function(
            """([name, p]) => { const e = document.querySelector(`.pagedlab[aria-label^='${name}']`);
               return e && e.dataset.position === String(p) && e.dataset.busy === "false"; }""",
            arg=[lab, position],
            timeout=30_000,
        )

    def marks(self, root):
        """Every mark of one lab: its class names and its words, by id."""
        return root.evaluate(
            """root => Object.fromEntries([...root.querySelectorAll("[data-id]")].map(e => [e.dataset.id, [
                 e.getAttribute("class"),
                 e.tagName === "text" ? e.firstChild?.textContent ?? "" : ""]]))"""
        )

    def check(self, board):
        drawn = {m.id: [m.cls, m.text if m.cls.startswith("text") else ""] for m in board.marks()}
        drawn |= {m.id: [m.cls, m.text if m.cls.startswith("text") else ""] for m in board.strip().marks}
        assert self.marks(self.board) == drawn

    def press(self, root, key, lab, position):
        root.focus()
        self.page.keyboard.press(key)
        self.wait(lab, position)


def test_knobs_are_turned_run_and_compared(jupyter, lab_page, artifacts):
    from pagedlab.viz import knobs

    lab = knobs()
    lab_page.open(jupyter.notebook("knobs.ipynb", SOURCE + "lab"))
    lab_page.run_all()
    page = Page(lab_page.page)
    page.wait("Knobs", 1)
    page.check(lab.board)
    # The cache off, by the checkbox and the button.
    lab_page.page.locator(".widget-checkbox input").click()
    lab_page.page.get_by_role("button", name="Run with these knobs").click()
    page.wait("Knobs", 2)
    lab.run(enable_prefix_caching=False)
    page.check(lab.board)
    assert "preemptions" in page.board.locator("[data-id=headline]").text_content()
    # Too high a utilization: out of memory, and no memory map.
    slider = lab_page.page.locator(".widget-slider .noUi-handle").first
    slider.focus()
    for _ in range(7):
        lab_page.page.keyboard.press("ArrowRight")
    lab_page.page.locator("[role=status]", has_text="Out of memory").wait_for()
    lab_page.page.get_by_role("button", name="Run with these knobs").click()
    page.wait("Knobs", 3)
    lab.run(gpu_memory_utilization=0.99)
    page.check(lab.board)
    assert "Out of memory" in page.board.locator("[data-id=headline]").text_content()
    page.map.wait_for(state="detached")
    # Through the runs, to the start and the end; the memory map follows.
    for position in (2, 1, 0, 1, 2):
        key = "ArrowLeft" if position < lab.board.position else "ArrowRight"
        lab.board.seek(position)
        page.press(page.board, key, "Knobs", position)
        page.check(lab.board)
        if position:
            opening = lab.runs[position - 1].opening
            page.wait("Memory map", opening)
            assert page.map.get_attribute("data-steps") == str(lab.runs[position - 1].steps)
    # The map of run 2 is stepped: what is drawn is what its replay says.
    for k in range(1, 6):
        lab.map.forward()
        page.press(page.map, "ArrowRight", "Memory map", lab.runs[1].opening + k)
        shown = page.marks(page.map)
        strip = {m.id for m in lab.map.strip().marks}
        drawn = {m.id: [m.cls, m.text if m.cls.startswith("text") else ""] for m in lab.map.marks()}
        own = {"step"} | strip  # the front end writes which step it is
        assert {k: v for k, v in shown.items() if k not in own} == {k: v for k, v in drawn.items() if k not in own}
    for theme in ("light", "dark"):
        jupyter.theme(theme)
        more = "lab.run(enable_prefix_caching=True, gpu_memory_utilization=0.85)\nlab.run(block_size=64)\nlab"
        lab_page.open(jupyter.notebook("knobs-2.ipynb", SOURCE + "lab.run(enable_prefix_caching=False)\n" + more))
        lab_page.run_all()
        lab_page.page.set_viewport_size({"width": 1380, "height": 1500})
        page = Page(lab_page.page)
        page.wait("Knobs", 4)
        lab_page.page.wait_for_timeout(500)
        lab_page.page.locator(".jp-OutputArea-output:has(.pagedlab)").screenshot(path=artifacts / f"knobs-{theme}.png")
    jupyter.theme("light")


def test_the_saved_page_steps_both_labs_without_a_kernel(browser, tmp_path, artifacts):
    from pagedlab.viz import knobs

    lab = knobs()
    lab.run(enable_prefix_caching=False)
    path = lab.save_html(tmp_path / "knobs.html")
    page = browser.new_page(viewport={"width": 1000, "height": 1200})
    errors = []
    page.on("console", lambda message: message.type == "error" and errors.append(message.text))
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(path.as_uri())
    board, below = page.locator(".pagedlab").nth(0), page.locator(".pagedlab").nth(1)
    board.wait_for()
    for position in (1, 0, 1, 2):
        board.focus()
        page.keyboard.press("ArrowLeft" if position < int(board.get_attribute("data-position")) else "ArrowRight")
        assert board.get_attribute("data-position") == str(position)
    before = int(below.get_attribute("data-position"))
    below.focus()
    page.keyboard.press("ArrowRight")
    assert below.get_attribute("data-position") == str(before + 1)
    page.screenshot(path=artifacts / "knobs-saved.png")
    page.close()
    assert not errors
