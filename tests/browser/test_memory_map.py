"""The memory map in a real JupyterLab: driven by mouse and keyboard, and compared with replay after every step."""

import json
import re
import statistics

import nbformat
import pytest

from pagedlab.bench.labs import OURS_CLICK
from pagedlab.trace import MemoryState, TraceDriver, load
from pagedlab.viz.stored import without_live_views

pytestmark = pytest.mark.browser

LIVE = """\
from pagedlab import LLM, SamplingParams
from pagedlab.viz import memory_map
llm = LLM("tiny-random", record=True, block_size=4, num_gpu_blocks_override=12)
llm.add_request("Hi there", SamplingParams(max_tokens=14, ignore_eos=True))
llm.add_request("Hello", SamplingParams(max_tokens=5, ignore_eos=True))
lab = memory_map(llm, select="A")
"""
SAVE = "from pagedlab.trace import save; save(llm.trace, 'run.jsonl.gz')"

# The picture's own data: every mark's words and classes, by id.
PICTURE = """(index) => {
  const root = document.querySelectorAll(".pagedlab")[index];
  const marks = {};
  for (const e of root.querySelectorAll("[data-id]"))
    marks[e.dataset.id] = {
      text: e.tagName === "text" ? e.firstChild?.textContent ?? "" : "", cls: e.getAttribute("class"),
    };
  const { position, selected, steps } = root.dataset;
  return JSON.stringify({ position: Number(position), selected, steps: Number(steps), marks });
}"""  # one text: Playwright looks at each value of an object


class Lab:
    """One lab on the page."""

    def __init__(self, page, index=0):
        self.page, self.index = page, index
        self.root = page.locator(".pagedlab").nth(index)
        self.root.wait_for()

    def wait(self, position, timeout=20_000):
        self.page.wait_for_function(
            "([i, p]) => { const d = document.querySelectorAll('.pagedlab')[i].dataset;"
            " return d.position === String(p) && d.busy === 'false'; }",
            arg=[self.index, position],
            timeout=timeout,
        )

    def press(self, what):
        self.root.locator(f"[data-do={what}]").click()

    def picture(self):
        return json.loads(self.page.evaluate(PICTURE, self.index))

    def words(self):
        return self.root.locator(".ask").inner_text()


def check(picture, state: MemoryState) -> None:
    """What the picture says is what replay says."""
    marks, selected = picture["marks"], picture["selected"]
    table = state.tables.get(selected, [])
    shown = {int(id.split(".")[1]): m["text"] for id, m in marks.items() if re.fullmatch(r"table\.\d+\.p", id)}
    assert shown == {i: f"#{b}" for i, b in enumerate(table)}
    for i in range(len(table)):
        assert marks[f"table.{i}.fill"]["text"] == f"{state.filled(selected, i)}/{state.block_size}"
    for block in range(1, state.num_blocks):
        owners = {id.split(".", 3)[3] for id in marks if id.startswith(f"block.{block}.owner.")}
        assert owners == set(state.owners(block))
        if owners:
            slots = [marks[f"block.{block}.s{o}"]["cls"] for o in range(state.block_size)]
            assert ["hatched" not in cls for cls in slots] == [s is not None for s in state.slots[block]]
    turns = {int(id.split(".")[1]): m["text"] for id, m in marks.items() if re.fullmatch(r"block\.\d+\.turn", id)}
    assert set(turns) == set(state.free) and (not state.free or turns[state.free[0]] in ("next", "next free"))
    request = state.requests[selected]
    for position, text in enumerate(request.texts[: request.num_computed_tokens] if table else []):
        if state.edited:  # what lies in the slot, whoever wrote it
            slot = state.slots[table[position // state.block_size]][position % state.block_size]
            text = slot.text if slot else "?"
        assert marks[f"token.{selected}.{position}.t"]["text"] == (text.strip(" ") or "␣" * len(text))


@pytest.fixture
def live(jupyter, lab_page):
    """A notebook with a live lab, run, and the lab on its page."""
    lab_page.open(jupyter.notebook("live.ipynb", LIVE + "lab", SAVE))
    lab_page.run_all()
    return lab_page, Lab(lab_page.page)


def test_ten_steps_forward_and_back_to_the_start_show_what_replay_says(jupyter, live, artifacts):
    lab_page, lab = live
    lab.wait(1)
    pictures = {1: lab.picture()}
    for position in range(2, 12):
        lab.press("step")
        lab.wait(position)
        pictures[position] = lab.picture()
    lab_page.page.screenshot(path=artifacts / "memory-map-light.png")
    back = {}
    for position in range(10, 0, -1):
        lab.press("back")
        lab.wait(position)
        back[position] = lab.picture()
    assert "the past" in back[5]["marks"]["step"]["text"]
    lab.press("back")
    lab.wait(0)  # before the first step; nobody has seen it, so the kernel draws it
    lab_page.run_cell(1)
    driver = TraceDriver(load(jupyter.root / "run.jsonl.gz"))
    assert driver.num_steps == 11
    for position, picture in [*pictures.items(), *back.items()]:
        driver.seek(position)
        assert picture["position"] == position
        check(picture, driver.state())


def test_keys_step_play_and_jump(live):
    lab_page, lab = live
    page = lab_page.page
    lab.wait(1)
    lab.root.focus()
    for key, position in [("ArrowRight", 2), ("ArrowRight", 3), ("ArrowLeft", 2), ("Home", 0), ("End", 3)]:
        page.keyboard.press(key)
        lab.wait(position)
    page.keyboard.press("Space")
    page.wait_for_function("() => Number(document.querySelector('.pagedlab').dataset.position) >= 5")
    page.keyboard.press("Space")
    page.wait_for_function("() => document.querySelector('.pagedlab').dataset.busy === 'false'")
    position = lab.picture()["position"]
    page.wait_for_timeout(1200)
    assert lab.picture()["position"] == position
    assert page.evaluate("() => document.activeElement.classList.contains('pagedlab')")
    assert page.locator(".jp-Cell").count() == 2  # no key reached the notebook


def test_a_chip_selects_and_a_block_predicts(live):
    lab_page, lab = live
    page = lab_page.page
    lab.wait(1)
    assert re.fullmatch("Where will the K and V of “.+” go\\? Click a block.", lab.words())
    lab.root.locator('[data-id="block.5"]').click()
    page.wait_for_function("() => document.querySelector('.pagedlab .ask').textContent.includes('#5')")
    lab.press("step")
    lab.wait(2)
    assert lab.words().startswith("✓ #5, right. Score 1 of 1.")
    lab.root.locator('[data-id="chip.B"]').click()
    page.wait_for_function("() => document.querySelector('.pagedlab').dataset.selected === 'B'")
    assert lab.picture()["marks"]["head.name"]["text"] == "B"
    # By keyboard: up and down walk over the blocks (past the null block), Enter points at one.
    lab.root.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_function("() => document.querySelector('.pagedlab .ask').textContent.includes('#1')")


def test_the_strip_scrubs(live):
    lab_page, lab = live
    lab.wait(1)
    for position in range(2, 8):
        lab.press("step")
        lab.wait(position)
    box = lab.root.locator(".strip-hit").bounding_box()
    column = box["width"] / 25  # 24 columns and half of one on each side
    lab_page.page.mouse.move(box["x"] + column * 7.5, box["y"] + box["height"] / 2)
    lab_page.page.mouse.down()
    lab_page.page.mouse.move(box["x"] + column * 3.5, box["y"] + box["height"] / 2, steps=5)
    lab_page.page.mouse.up()
    lab.wait(3)


def test_twenty_clicks_a_second_are_twenty_steps(jupyter, lab_page):
    source = LIVE.replace("max_tokens=14", "max_tokens=40").replace("override=12", "override=24")
    lab_page.open(jupyter.notebook("fast.ipynb", source + "lab"))
    lab_page.run_all()
    lab = Lab(lab_page.page)
    lab.wait(1)
    lab_page.page.evaluate(
        """() => { let n = 0; const go = document.querySelector('.pagedlab .go');
                   const timer = setInterval(() => { go.click(); if (++n === 20) clearInterval(timer); }, 50); }"""
    )
    lab.wait(21, timeout=30_000)
    assert lab.picture()["steps"] == 21


def test_two_views_stay_together_and_a_second_run_of_the_cell_starts_anew(jupyter, lab_page):
    lab_page.open(jupyter.notebook("two.ipynb", LIVE + "lab", "lab"))
    lab_page.run_all()
    page = lab_page.page
    one, two = Lab(page, 0), Lab(page, 1)
    one.press("step")
    one.wait(2)
    two.wait(2)
    two.press("back")
    two.wait(1)
    one.wait(1)
    assert one.picture() == two.picture()
    lab_page.run_all()
    one, two = Lab(page, 0), Lab(page, 1)
    one.wait(1)
    one.press("step")
    one.wait(2)
    two.wait(2)
    assert two.picture()["steps"] == 2


def test_after_a_kernel_restart_the_steps_seen_can_still_be_looked_at(live):
    lab_page, lab = live
    page = lab_page.page
    lab.press("step")
    lab.wait(2)
    page.evaluate(
        """async () => { const panel = window.jupyterapp.shell.currentWidget;
                         await panel.sessionContext.session.kernel.restart(); }"""
    )
    lab_page.wait_idle()
    lab.press("back")
    lab.wait(1)
    lab.press("last")
    lab.wait(2)
    lab.press("step")
    page.wait_for_function("() => /kernel/i.test(document.querySelector('.pagedlab .ask').textContent)", timeout=10_000)
    lab_page.run_all()
    Lab(page).wait(1)


def test_light_and_dark_follow_the_notebook(jupyter, lab_page, artifacts):
    jupyter.theme("dark")
    try:
        lab_page.open(jupyter.notebook("dark.ipynb", LIVE + "lab"))
        lab_page.run_all()
        lab = Lab(lab_page.page)
        for position in range(2, 8):
            lab.press("step")
            lab.wait(position)
        lab_page.page.wait_for_timeout(400)
        lab_page.page.screenshot(path=artifacts / "memory-map-dark.png")
        assert lab.root.evaluate("e => getComputedStyle(e).backgroundColor") == "rgb(22, 25, 31)"
    finally:
        jupyter.theme("light")


def test_a_stored_notebook_shows_the_last_picture_without_a_kernel(jupyter, lab_page):
    from pagedlab import LLM, SamplingParams
    from pagedlab.viz import memory_map

    llm = LLM("tiny-random", record=True, block_size=4, num_gpu_blocks_override=12)
    llm.add_request("Hi there", SamplingParams(max_tokens=14, ignore_eos=True))
    lab = memory_map(llm)
    lab.forward(4)
    data, _ = lab._repr_mimebundle_()
    cell = nbformat.v4.new_code_cell("lab", execution_count=1)
    cell.outputs = [nbformat.v4.new_output("execute_result", data=data, execution_count=1)]
    notebook = without_live_views(nbformat.v4.new_notebook(cells=[cell]))
    notebook.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(notebook, jupyter.root / "stored.ipynb")
    lab_page.open("stored.ipynb")
    # An untrusted notebook, as a clone's is, shows the picture in text; a trusted one the drawing.
    page = lab_page.page
    page.locator(".jp-OutputArea-output pre").wait_for()
    assert "What A sees" in page.locator(".jp-OutputArea-output").first.inner_text()
    page.evaluate("() => { window.jupyterapp.shell.currentWidget.content.widgets[0].model.trusted = true; }")
    image = page.locator(".jp-OutputArea-output svg, .jp-OutputArea-output img").first
    image.wait_for()
    assert image.bounding_box()["width"] > 700
    assert lab_page.page.locator(".pagedlab").count() == 0


def test_how_long_a_click_takes_is_kept_for_the_record(jupyter, lab_page, artifacts):
    """256 blocks of 16 slots. No assertion: times depend on the machine."""
    source = LIVE.replace("block_size=4", "block_size=16").replace("override=12", "override=256")
    source = source.replace('"Hi there"', '"Hi there" * 40').replace("max_tokens=14", "max_tokens=60")
    lab_page.open(jupyter.notebook("times.ipynb", source + "lab"))
    lab_page.run_all()
    lab = Lab(lab_page.page)
    lab.wait(1)
    times = {
        "engine_ms": [lab_page.page.evaluate(OURS_CLICK, "step") for _ in range(20)],
        "seen_ms": [lab_page.page.evaluate(OURS_CLICK, "back") for _ in range(20)],
    }
    medians = {name: round(statistics.median(values), 1) for name, values in times.items()}
    (artifacts / "memory-map-times.json").write_text(json.dumps({"medians": medians, **times}))
    print(medians)


def test_what_moves_is_seen_to_move_then_no_mark_has_a_transform_and_nothing_moves_where_that_is_unwanted(
    jupyter, lab_page
):
    """Hundreds of marks with a transform made every frame slow."""
    page = lab_page.page
    lab_page.open(jupyter.notebook("motion.ipynb", LIVE + "lab"))
    lab_page.run_all()
    Lab(page).wait(1)
    page.evaluate("""() => {
        const animate = Element.prototype.animate;
        window.moved = [];
        Element.prototype.animate = function (...how) {
            if (this.closest(".pagedlab svg")) window.moved.push(this.dataset.id);
            return animate.apply(this, how);
        };
    }""")
    page.evaluate(OURS_CLICK, "step")
    moved = page.evaluate("window.moved")
    assert 0 < len(moved) < 40 and any(id.startswith("token.") for id in moved)
    page.wait_for_function("""() => [...document.querySelectorAll(".pagedlab svg [data-id]")]
        .every(mark => getComputedStyle(mark).transform === "none")""")
    page.emulate_media(reduced_motion="reduce")
    page.evaluate(OURS_CLICK, "step")
    assert page.evaluate("window.moved") == moved
