"""The labs beside the memory map in a real JupyterLab: stepped to the end and back by keyboard, each picture compared
with what Python draws for that moment (which tests/viz compares with the runs themselves)."""

import json

import pytest

pytestmark = pytest.mark.browser

# As one text: Playwright looks at each value of an object.
MARKS = """() => JSON.stringify(Object.fromEntries([...document.querySelectorAll(".pagedlab [data-id]")].map(
  e => [e.dataset.id, [e.getAttribute("class"), e.tagName === "text" ? e.firstChild?.textContent ?? "" : ""]])))"""


def marks_on(page):
    """Every mark on the page: its class names and its words, by id."""
    return json.loads(page.evaluate(MARKS))


class Lab:
    """The one lab on the page."""

    def __init__(self, lab_page, name):
        self.page = lab_page.page
        self.page.emulate_media(reduced_motion="reduce")  # what moves is looked at in test_memory_map.py
        self.root = self.page.locator(".pagedlab")
        self.root.wait_for()
        assert self.root.get_attribute("aria-label").startswith(name)

    def wait(self, position, selected=None):
        self.page.wait_for_function(
            """([p, s]) => { const d = document.querySelector('.pagedlab').dataset;
               return d.position === String(p) && d.busy === 'false' && (s === null || d.selected === s); }""",
            arg=[position, selected],
            timeout=20_000,
        )

    def key(self, key, position):
        self.root.focus()
        self.page.keyboard.press(key)
        self.wait(position)

    def check(self, lab):
        """What is on the page is what Python draws."""
        strip = lab.strip()
        drawn = [*lab.marks(), *(strip.marks if strip else [])]
        expected = {m.id: [m.cls, m.text if m.cls.startswith("text") else ""] for m in drawn}
        assert marks_on(self.page) == expected


def step_through(page, lab):
    """To the end and back to the start, by arrow keys, from wherever both stand."""
    page.check(lab)
    for position in range(lab.position + 1, lab.num_steps + 1):
        lab.forward()
        page.key("ArrowRight", position)
        page.check(lab)
    for position in range(lab.num_steps - 1, -1, -1):
        lab.back()
        page.key("ArrowLeft", position)
        page.check(lab)
    page.key("End", lab.num_steps)
    page.key("Home", 0)


def keep_pictures(jupyter, lab_page, artifacts, name, notebook):
    """A screenshot in both themes, kept in an ignored folder."""
    for theme in ("light", "dark"):
        jupyter.theme(theme)
        lab_page.open(notebook)
        lab_page.run_all()
        lab_page.page.locator(".pagedlab").wait_for()
        lab_page.page.wait_for_timeout(400)
        lab_page.page.locator(".pagedlab").screenshot(path=artifacts / f"{name}-{theme}.png")
    jupyter.theme("light")


def test_the_fragmentation_lab(jupyter, lab_page, artifacts):
    from pagedlab.viz import fragmentation

    source = "from pagedlab.viz import fragmentation\n"
    lab_page.open(jupyter.notebook("fragmentation.ipynb", source + "fragmentation(moment=0, select='max')"))
    lab_page.run_all()
    page, lab = Lab(lab_page, "Fragmentation"), fragmentation(moment=0, select="max")
    lab_page.page.locator("[data-id='slot.0.max']").click()
    lab.predict(0)
    page.root.locator(".ask", has_text="You say slot 0").wait_for()
    page.check(lab)
    page.key("ArrowRight", 1)
    assert "Score 1 of 1" in page.root.locator(".ask").inner_text()
    lab.forward()
    lab_page.page.locator("[data-id='chip.oracle']").press("Enter")
    page.wait(1, "oracle")
    lab.select("oracle")
    step_through(page, lab)
    notebook = jupyter.notebook("fragmentation-2.ipynb", source + "fragmentation()")
    keep_pictures(jupyter, lab_page, artifacts, "fragmentation", notebook)


PREFIX = """\
from pagedlab import LLM, SamplingParams
from pagedlab.viz import prefix_hits
llm = LLM("tiny-random", record=True, block_size=4, num_gpu_blocks_override=16)
for question in ("Why is it?", "Who are you"):
    llm.add_request("You help. " + question, SamplingParams(max_tokens=4, ignore_eos=True))
for _ in range(4):
    llm.step()
llm.add_request("You help. Why not", SamplingParams(max_tokens=3, ignore_eos=True))
"""


def test_the_prefix_lab(jupyter, lab_page, artifacts):
    made = {}
    exec(PREFIX + "lab = prefix_hits(llm, 'You help. Who is it')", made)
    lab = made["lab"].lab
    notebook = jupyter.notebook("prefix.ipynb", PREFIX + "lab = prefix_hits(llm, 'You help. Who is it')\nlab")
    lab_page.open(notebook)
    lab_page.run_all()
    page = Lab(lab_page, "Prefix hits")
    step = {"step": ["text s12 end soft", ""]}

    def check():
        drawn = {m.id: [m.cls, m.text if m.cls.startswith("text") else ""] for m in [*lab.marks(), *lab.strip().marks]}
        # Times are this run's own, and the front end writes which step it is.
        own = {id for id in drawn if id.endswith(".first token")} | set(step)
        seen = marks_on(page.page)
        assert {k: v for k, v in seen.items() if k not in own} == {k: v for k, v in drawn.items() if k not in own}

    check()
    for position in range(lab.position + 1, lab.position + 4):  # the engine runs
        lab.forward()
        page.key("ArrowRight", position)
        check()
    for position in range(lab.position - 1, -1, -1):
        lab.back()
        page.key("ArrowLeft", position)
        check()
    lab.seek(lab.num_steps)
    page.key("End", lab.num_steps)
    box = lab_page.page.locator(".widget-text input")
    box.fill("You help. Why not now")
    box.press("Enter")
    page.wait(lab.num_steps, "1")
    lab.walk("You help. Why not now")
    check()
    for chip in ("2", "3", "4"):
        lab_page.page.locator(f"[data-id='chip.{chip}']").press("Enter")
        page.wait(lab.num_steps, chip)
        lab.select(chip)
        check()
    keep_pictures(jupyter, lab_page, artifacts, "prefix", notebook)


KERNEL = """\
from pagedlab import LLM, SamplingParams
from pagedlab.viz import kernel_walk
llm = LLM("tiny-random", record=True, block_size=4, num_gpu_blocks_override=14)
llm.add_request("Hi there, you, who", SamplingParams(max_tokens=6, ignore_eos=True))
llm.step()
llm.step()
"""


def test_the_kernel_lab(jupyter, lab_page, artifacts):
    made = {}
    exec(KERNEL + "lab = kernel_walk(llm)", made)
    lab = made["lab"]
    notebook = jupyter.notebook("kernel.ipynb", KERNEL + "kernel_walk(llm)")
    lab_page.open(notebook)
    lab_page.run_all()
    page = Lab(lab_page, "Kernel")

    def check():
        def but_base(marks):  # where the tensor lies is this process's own
            return {k: v for k, v in marks.items() if not k.startswith("address.5.")}

        drawn = {m.id: [m.cls, m.text if m.cls.startswith("text") else ""] for m in lab.marks()}
        assert but_base(marks_on(page.page)) == but_base(drawn)

    check()
    lab_page.page.locator("[data-id='block.2']").click()
    page.root.locator(".ask", has_text="You say #2").wait_for()
    lab.predict(2)
    for position in range(2, lab.num_steps + 1):
        lab.forward()
        page.key("ArrowRight", position)
        check()
    for position in range(lab.num_steps - 1, -1, -1):
        lab.back()
        page.key("ArrowLeft", position)
        check()
    page.key("End", lab.num_steps)
    lab.seek(lab.num_steps)
    lab_page.page.locator("[data-id='chip.3']").press("Enter")
    page.wait(lab.num_steps, "3")
    lab.select("3")
    check()
    keep_pictures(jupyter, lab_page, artifacts, "kernel", notebook)


SIDES = """\
from pagedlab.kv import BlockPool
from pagedlab.parity.side_by_side import golden, side_by_side
from pagedlab.viz import step_both
class AllToTheTail(BlockPool):
    def free_blocks(self, ordered_blocks):
        blocks = list(ordered_blocks)
        for block in blocks:
            block.ref_cnt -= 1
        self.free_block_queue.append_n([b for b in blocks if b.ref_cnt == 0])
"""


def test_vllm_side_by_side(jupyter, lab_page, artifacts):
    """Each picture is compared with what Python draws, which tests/viz compares with both runs themselves."""
    made = {}
    exec(SIDES + "both = side_by_side(golden('sched-02'))", made)
    lab = made["step_both"](made["both"], step=0)
    lab_page.open(jupyter.notebook("both.ipynb", SIDES + "step_both(side_by_side(golden('sched-02')), step=0)"))
    lab_page.run_all()
    page = Lab(lab_page, "Side by side")

    def check():
        drawn = {m.id: [m.cls, m.text if m.cls.startswith("text") else ""] for m in [*lab.marks(), *lab.strip().marks]}
        seen = marks_on(page.page)
        assert seen.pop("step")[1] == f"step {lab.position} of {lab.num_steps}"  # which the front end writes
        drawn.pop("step")
        assert seen == drawn
        if lab.position:  # and what is drawn is what vLLM recorded
            step = made["both"].theirs[lab.position - 1]
            if step["free"]:
                assert seen[f"0.block.{step['free'][0]}.turn"][1] == "next"
            assert not any(id.endswith(".differs") for id in seen)

    check()
    for position in range(1, lab.num_steps + 1):
        lab.forward()
        page.key("ArrowRight", position)
        check()
    for position in range(lab.num_steps - 1, -1, -1):
        lab.back()
        page.key("ArrowLeft", position)
        check()
    page.key("End", lab.num_steps)
    strip = page.root.locator(".strip-hit")
    box = strip.bounding_box()
    lab_page.page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.wait(lab.num_steps // 2)
    wrong = SIDES + "both = side_by_side(golden('sched-02'), block_pool=AllToTheTail)\n"
    wrong += "step_both(both, names=('vLLM', 'wrong order'))"
    keep_pictures(jupyter, lab_page, artifacts, "side-by-side", jupyter.notebook("wrong.ipynb", wrong))
    page.root.locator("[data-do=more]").click()
    page.root.locator("[data-pane=differences]").click()
    page.root.locator("[data-act]").nth(2).click()
    assert lab_page.page.locator("[data-id$='.differs']").count()
