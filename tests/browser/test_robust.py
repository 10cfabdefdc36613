"""What learners do to a lab that is not a click at a time: close the notebook, keep the kernel busy, step 500 times,
use two labs at once. After all of it the picture is what replay says, and the console is empty (see conftest.py)."""

import pytest
from test_memory_map import LIVE, SAVE, Lab, check

from pagedlab.trace import TraceDriver, load
from pagedlab.viz.kit.script import script

pytestmark = pytest.mark.browser
LONG = LIVE.replace("max_tokens=14", "max_tokens=40").replace("override=12", "override=24")


# The front end's memory alone; the test plays the kernel: `sent` is what it was asked, `answer` is a message back.
STORE = """() => {
  const strip = { version: 0, base: null, set: [], del: [], like: {}, size: null };
  const message = (position, extra = {}) => ({
    lab: { name: "x", size: [1, 1] }, position, selected: "A", base: null, stale: [], strip, panes: {},
    set: [["m", [0, 0], "text", `${position}`]], del: [], like: {}, next: "", verdict: "", question: "", say: "",
    run: { steps: position, live: true, over: "" }, heard: null, ...extra });
  const sent = [];
  let answer;
  const store = new Store({
    get: (name) => (name === "picture" ? message(1) : undefined), off() {}, on: (_, receive) => { answer = receive; },
    send: (request) => sent.push(request) });
  store.views.add({ draw() { if (!store.current) throw Error("there is no picture to draw"); } });
  const failed = [];
  const check = (true_, what) => { if (!true_) failed.push(what); };
  const last = () => sent.at(-1);

  store.step(1), store.step(1);
  check(sent.length === 1 && last().position === 2, "two clicks ask once, for the first step");
  answer(message(7, { run: { steps: 7, live: true, over: "" } }));
  check(store.position === 1, "a picture from before our move does not move us");
  answer(message(2, { heard: last().n, run: { steps: 7, live: true, over: "" } }));
  check(store.position === 2 && sent.length === 2 && last().position === 3, "the second click goes on from there");
  answer(message(3, { heard: last().n }));
  check(store.position === 3 && store.want === null && store.waiting === null, "there");

  store.step(1), store.step(-1);
  check(store.position === 3 && last().do === "at" && last().position === 3, "who thinks again stays, and says so");
  answer(message(4, { heard: sent.at(-2).n }));
  check(store.position === 3 && store.pictures.size === 5, "the step that was asked for is kept, not gone to");
  answer(message(9, { heard: last().n, stale: ["all"] }));
  check(store.position === 9 && store.pictures.size === 1, "another lab moved the cursor, of another run");
  store.step(1), store.step(-1);
  const before = sent.length;
  answer(message(5, { heard: 1, stale: ["all"] }));
  const request = sent[before];
  check(store.position === 5 && request.do === "at" && request.position === 5, "nothing is left where we were");

  for (let k = 6; k < 600; k++) store.step(1), answer(message(k, { heard: last().n }));
  check(store.position === 599 && store.pictures.size === 200, "pictures are bounded");
  answer(message(600, { heard: last().n, stale: ["all"], base: [4, "A"] }));
  check(last().do === "whole", "a change of a picture that is gone: ask for all of it");
  answer(message(600, { heard: last().n }));
  check(store.position === 600, "all of it came");
  return failed;
}"""


def test_messages_in_any_order_never_take_the_learner_elsewhere(browser):
    source = script("lab.js").replace("export default", "window.Store = Store; window.lab =")
    page = browser.new_page()
    page.add_script_tag(content=source, type="module")
    page.wait_for_function("() => window.Store")
    assert page.evaluate(STORE) == []
    page.close()


def state_after(jupyter, lab_page, cell, position):
    """Memory after a step, from the trace that the notebook's cell ``cell`` saves."""
    lab_page.run_cell(cell)
    driver = TraceDriver(load(jupyter.root / "run.jsonl.gz"))
    driver.seek(position)
    return driver.num_steps, driver.state()


def text_of(page, id):
    return page.locator(f'.pagedlab [data-id="{id}"]').first.text_content()


def test_a_notebook_that_was_closed_and_opened_again_goes_on_where_it_was(jupyter, lab_page):
    lab_page.open(jupyter.notebook("reopen.ipynb", LONG + "lab", SAVE))
    lab_page.run_all()
    page, lab = lab_page.page, Lab(lab_page.page)
    for position in (2, 3):
        lab.press("step")
        lab.wait(position)
    page.evaluate("() => window.jupyterapp.commands.execute('docmanager:save')")
    page.evaluate("() => { window.jupyterapp.shell.currentWidget.close(); }")
    page.locator(".pagedlab").wait_for(state="detached")
    page.evaluate("() => window.jupyterapp.commands.execute('docmanager:open', { path: 'reopen.ipynb' })")
    lab = Lab(page)
    lab.wait(3)
    lab_page.wait_idle()
    lab.press("back")
    lab.wait(2)  # the new page has not seen it: the kernel draws it
    lab.press("last")
    lab.wait(3)
    lab.press("step")
    lab.wait(4)
    page.evaluate("() => window.jupyterapp.commands.execute('docmanager:save')")
    page.goto("about:blank")  # as if the browser had been closed
    lab_page.open("reopen.ipynb")
    lab = Lab(page)
    lab.wait(4)
    lab.press("step")
    lab.wait(5)
    steps, state = state_after(jupyter, lab_page, 1, 5)
    assert steps == 5
    check(lab.picture(), state)


def test_clicks_while_the_kernel_is_busy_are_neither_lost_nor_doubled(jupyter, lab_page):
    busy = "import time; time.sleep(3)"
    lab_page.open(jupyter.notebook("busy.ipynb", LONG + "lab", busy, SAVE))
    lab_page.run_cell(0)
    page, lab = lab_page.page, Lab(lab_page.page)
    lab.wait(1)

    def start_sleeping():
        page.evaluate("() => { window.jupyterapp.shell.currentWidget.content.activeCellIndex = 1; }")
        lab_page.command("notebook:run-cell")
        page.wait_for_timeout(300)

    start_sleeping()
    for _ in range(3):
        lab.press("step")
    page.wait_for_function("() => document.querySelector('.pagedlab .ask').textContent.startsWith('Waiting')")
    assert lab.picture()["position"] == 1 and lab.root.get_attribute("data-busy") == "true"
    lab.wait(4)
    page.wait_for_timeout(300)
    assert lab.picture()["steps"] == 4 and "Waiting" not in lab.words()
    lab_page.wait_idle()
    # Somebody who thinks again: the step that was asked for happens, and the picture stays where the learner went.
    start_sleeping()
    lab.press("step")
    lab.press("back")
    lab.press("back")
    assert lab.picture()["position"] == 3  # a step that was seen needs no kernel
    lab_page.wait_idle()
    page.wait_for_function("() => document.querySelector('.pagedlab').dataset.steps === '5'")
    lab.wait(3)
    steps, state = state_after(jupyter, lab_page, 2, 3)
    assert steps == 5
    check(lab.picture(), state)
    lab.press("step")
    lab.wait(4)
    check(lab.picture(), state_after(jupyter, lab_page, 2, 4)[1])


def test_two_labs_of_one_driver_stay_in_step(jupyter, lab_page, artifacts):
    source = LIVE.replace('lab = memory_map(llm, select="A")', "") + (
        "from pagedlab.engine import EngineDriver\nfrom pagedlab.viz import prefix_hits\n"
        "driver = EngineDriver(llm); memory_map(driver, select='A')"
    )
    lab_page.open(jupyter.notebook("together.ipynb", source, "memory_map(driver, select='B')",
                                   "prefix_hits(driver, 'Hi there')", "driver.seek(2)", SAVE))  # fmt: skip
    for cell in range(3):
        lab_page.run_cell(cell)
    page = lab_page.page
    labs = [Lab(page, i) for i in range(3)]

    def all_at(position):
        for lab in labs:
            lab.wait(position)

    all_at(1)
    walk = [(0, "step", 2), (1, "step", 3), (2, "step", 4), (0, "back", 3), (2, "first", 0), (1, "last", 4)]
    for who, what, position in walk:
        labs[who].press(what)
        all_at(position)
    labs[1].root.focus()
    page.keyboard.press("ArrowLeft")
    all_at(3)
    lab_page.run_cell(3)
    all_at(2)
    page.screenshot(path=artifacts / "labs-in-step.png")
    steps, state = state_after(jupyter, lab_page, 4, 2)
    assert steps == 4
    for lab in labs[:2]:
        check(lab.picture(), state)


def test_copy_on_write_is_switched_off_b_overwrites_a_and_undo_recovers(jupyter, lab_page, artifacts):
    source = """\
from pagedlab import LLM, SamplingParams
from pagedlab.viz import memory_map
llm = LLM("tiny-random", record=True, era="paper", block_size=4, num_gpu_blocks_override=12)
llm.add_request("Hi there yo", SamplingParams(max_tokens=9, n=2, temperature=1.0, ignore_eos=True))
lab = memory_map(llm, select="A/0")
lab"""
    lab_page.open(jupyter.notebook("cow.ipynb", source, SAVE))
    lab_page.run_all()
    page, lab = lab_page.page, Lab(lab_page.page)
    lab.wait(1)
    lab.press("more")
    page.locator(".pagedlab [data-pane=cow]").click()
    page.locator(".pagedlab [data-act='switch off']").click()
    page.locator(".pagedlab [data-act='switch on']").wait_for()
    assert "edited by you" in text_of(page, "badge.text")
    lab.press("step")
    lab.wait(2)
    page.locator(".pagedlab .pane .alarm").first.wait_for()
    assert "A/1 wrote there" in page.locator(".pagedlab .pane").inner_text()
    assert "over it: from now on A/0 reads A/1's K and V there" in lab.root.locator(".spoken").text_content()
    page.wait_for_timeout(400)
    page.screenshot(path=artifacts / "memory-map-cow-off.png")
    page.locator(".pagedlab [data-act=undo]").click()
    lab.wait(1)
    assert "edited by you" not in text_of(page, "badge.text")
    page.locator(".pagedlab [data-pane=code]").click()
    lab.press("step")
    lab.wait(2)
    page.locator(".pagedlab .pane [data-act^='block_copied']").click()
    page.locator(".pagedlab .pane pre .marked", has_text="table[-1] = new").wait_for()
    assert page.locator(".pagedlab .pane pre .marked").count() == 3
    steps, state = state_after(jupyter, lab_page, 1, 2)
    assert not state.edited and steps == 2
    assert text_of(page, "table.2.p") == f"#{state.tables['A/0'][2]}"


@pytest.mark.slow
def test_500_steps_leave_no_more_behind_than_250(jupyter, lab_page, artifacts):
    source = LIVE.replace("max_tokens=14", "max_tokens=600").replace("override=12", "override=256")
    sizes = "import gc; gc.collect(); print(len(lab._sent), sum(len(p) for _, p in lab._sent.values()))"
    lab_page.open(jupyter.notebook("leak.ipynb", source + "lab", sizes))
    lab_page.run_cell(0)
    page, lab = lab_page.page, Lab(lab_page.page)
    lab.wait(1)
    tools = page.context.new_cdp_session(page)
    found = {}
    for target in (250, 500):
        page.evaluate(
            """n => { const go = document.querySelector('.pagedlab .go'); for (let i = 0; i < n; i++) go.click(); }""",
            target - lab.picture()["position"],
        )
        lab.wait(target, timeout=120_000)
        lab_page.run_cell(1)  # before it is measured: JupyterLab adds listeners for a cell's first output
        tools.send("HeapProfiler.collectGarbage")
        counts = tools.send("Memory.getDOMCounters")
        used = tools.send("Runtime.getHeapUsage")["usedSize"]
        found[target] = (used / 2**20, counts["nodes"], counts["jsEventListeners"])
    (artifacts / "memory-map-500-steps.txt").write_text(repr(found))
    print(found)
    assert found[500][0] < found[250][0] + 12, found  # MiB
    assert found[500][1] < found[250][1] + 1500 and found[500][2] < found[250][2] + 50, found
    printed = page.locator(".jp-OutputArea-output pre").last.inner_text().split()
    assert int(printed[0]) <= 32
