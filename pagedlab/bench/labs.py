"""How fast are the labs? Click to painted picture, first paint and bytes per step, in a real JupyterLab.

The memory map over a live engine, and a plotly ``FigureWidget`` with as many cells that is changed as often, take turns
in one run on one machine; then every lab of the course steps through a run that is over (``lab_cells.py``). Needs
playwright and a Chromium. One click comes right after the other. A first paint is counted from the moment that the cell
is told to run: the kernel's work and the way there and back are in it.

Counted is all that the page does, to the end of the first frame with the new picture in it: its style, layout and
painting. Not counted is what other threads do then, without the page: to turn the painted picture into pixels and bring
them to the screen. Marks that move are at their new places in that picture, and are seen on their way there for another
0.28 s.
"""

from __future__ import annotations

import json as json_module
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from pagedlab.bench.browser import BROWSER_ARGS, Jupyter, LabPage
from pagedlab.bench.lab_cells import BLOCK_SIZE, BLOCKS, LABS
from pagedlab.bench.machine import check_writable, keep, machine
from pagedlab.doctor import INSTALL_CHROMIUM, find_chromium
from pagedlab.errors import PagedlabError

TURN = 5  # clicks in one of the two, before the other has its turn

# What has nothing to do with the picture (imports, the model, the first step) runs in a cell before.
OURS_BEFORE = f"""\
from pagedlab import LLM, SamplingParams
from pagedlab.viz import memory_map
memory_map  # it is loaded when it is first asked for
llm = LLM("tiny-random", record=True, block_size={BLOCK_SIZE}, num_gpu_blocks_override={BLOCKS})
for n in range(8):
    llm.add_request("Hi there" * (10 + 5 * n), SamplingParams(max_tokens=100, ignore_eos=True))
llm.step()"""
OURS = 'memory_map(llm, select="A")'
# The engine's own time in the steps that were clicked, in ms.
ENGINE = "print([round(e.seconds * 1e3, 1) for e in llm.trace.events if e.kind == 'step_ended'][1:])"
PLOTLY_BEFORE = f"""\
import ipywidgets, numpy, plotly.graph_objects as go
go.FigureWidget, go.Heatmap  # they are loaded when they are first asked for
state = numpy.zeros(({BLOCKS}, {BLOCK_SIZE}))
def step(_):
    state.flat[int((state > 0).sum())] = 1
    with figure.batch_update():
        figure.data[0].z = state.copy()"""
PLOTLY = """\
figure = go.FigureWidget(go.Heatmap(z=state.copy()))
button = ipywidgets.Button(description="step")
button.on_click(step)
ipywidgets.VBox([button, figure])"""

# All times are milliseconds of the page's clock. What is waited for is looked at whenever the page changes.
# A message that is posted when a frame begins comes when its style, layout and painting are done. (The next frame's
# beginning would come up to a frame later, though nothing is done in between.)
PAGE = """
const painted = () => new Promise(done => requestAnimationFrame(() => {
  const channel = new MessageChannel();
  channel.port1.onmessage = done;
  channel.port2.postMessage(null);
}));
const until = (there, where) => new Promise((done, fail) => {
  if (there()) return done();
  setTimeout(() => fail(Error("nothing came within a minute")), 60_000);
  const watch = new MutationObserver(() => there() && (watch.disconnect(), done()));
  watch.observe(where, {attributes: true, childList: true, subtree: true});
});
"""
# From the moment that the cell is told to run. (Not from its end: its output may be on the page before that.)
FIRST_PAINT = f"""async (there) => {{
  {PAGE}
  const start = performance.now(), failed = "[data-mime-type='application/vnd.jupyter.error']";
  window.jupyterapp.shell.currentWidget.content.activeCellIndex = 1;
  window.jupyterapp.commands.execute("notebook:run-cell");
  await until(() => document.querySelector(`${{there}}, ${{failed}}`), document.body);
  if (document.querySelector(failed)) throw Error("a cell failed");
  await painted();
  return performance.now() - start;
}}"""
OURS_CLICK = f"""async (what) => {{
  {PAGE}
  const root = document.querySelector(".pagedlab"), before = root.dataset.position, start = performance.now();
  root.querySelector(`[data-do=${{what}}]`).click();
  await until(() => root.dataset.position !== before && root.dataset.busy === "false", root);
  await painted();
  return performance.now() - start;
}}"""
PLOTLY_CLICK = f"""async () => {{
  {PAGE}
  const start = performance.now();
  const drawn = new Promise(done => document.querySelector(".js-plotly-plot").once("plotly_afterplot", done));
  document.querySelector(".jp-OutputArea-output .jupyter-button").click();
  await drawn;
  await painted();
  return performance.now() - start;
}}"""
# The time from one frame to the next while nothing changes.
FRAME = """() => new Promise(done => {
  const times = [];
  const next = (time) => times.push(time) < 31 ? requestAnimationFrame(next) : done((times[30] - times[0]) / 30);
  requestAnimationFrame(next);
})"""


def measure(steps: int = 20) -> dict[str, Any]:
    """Times in ms (medians, and every one), bytes that the page received per step. Raises PagedlabError where there is
    no browser."""
    chromium = find_chromium()
    if not chromium:
        raise PagedlabError(f"There is no Chromium here: {INSTALL_CHROMIUM}.")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        raise PagedlabError("playwright is not installed. Install it: pip install playwright.") from None
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, sync_playwright() as playwright:
        jupyter = Jupyter(Path(folder))
        try:
            browser = playwright.chromium.launch(executable_path=chromium, headless=True, args=BROWSER_ARGS)
            result = _beside_plotly(jupyter, browser, steps)
            result["labs"] = {name: _lab(jupyter, browser, name, steps) for name in LABS}
            browser.close()
        finally:
            jupyter.stop()
    return {"benchmark": "labs", "machine": machine(), "blocks": BLOCKS, "block_size": BLOCK_SIZE} | result


def _open(jupyter: Jupyter, browser: Any, name: str, *cells: str) -> tuple[LabPage, list[int]]:
    """A page with the notebook, whose first cell has run, and a list whose only item counts the bytes received."""
    page = browser.new_page(viewport={"width": 1380, "height": 900})
    page.set_default_timeout(60_000)
    received = [0]

    def count(payload: str | bytes) -> None:
        received[0] += len(payload)

    page.on("websocket", lambda socket: socket.on("framereceived", count))
    lab = LabPage(jupyter, page)
    lab.open(jupyter.notebook(name, *cells))
    lab.run_cell(0)
    return lab, received


def _beside_plotly(jupyter: Jupyter, browser: Any, steps: int) -> dict[str, Any]:
    lab, received = _open(jupyter, browser, "ours.ipynb", OURS_BEFORE, OURS, ENGINE)
    first = lab.page.evaluate(FIRST_PAINT, ".pagedlab [data-id]")
    plotly, plotly_received = _open(jupyter, browser, "plotly.ipynb", PLOTLY_BEFORE, PLOTLY)
    plotly_first = plotly.page.evaluate(FIRST_PAINT, ".js-plotly-plot .heatmaplayer image")
    plotly.page.wait_for_timeout(500)
    before = received[0], plotly_received[0]
    engine: list[float] = []
    update: list[float] = []
    while len(engine) < steps:  # in turns, so that what else the machine does meets both
        turn = range(min(TURN, steps - len(engine)))
        lab.page.bring_to_front()
        engine += [lab.page.evaluate(OURS_CLICK, "step") for _ in turn]
        plotly.page.bring_to_front()
        update += [plotly.page.evaluate(PLOTLY_CLICK) for _ in turn]
    plotly.page.wait_for_timeout(200)
    size, plotly_size = (received[0] - before[0]) / steps, (plotly_received[0] - before[1]) / steps
    plotly.close()
    frame = round(lab.page.evaluate(FRAME), 1)
    seen = [lab.page.evaluate(OURS_CLICK, "back") for _ in range(steps)]
    lab.run_cell(2)
    own = json_module.loads(lab.page.locator(".jp-OutputArea-output pre").last.inner_text())
    lab.close()
    without = [whole - part for whole, part in zip(engine, own, strict=True)]
    ours = _figures(first, size, engine=engine, engine_itself=own, without_engine=without, seen=seen)
    theirs = _figures(plotly_first, plotly_size, update=update)
    ratio = round(ours["without_engine_ms"] / theirs["update_ms"], 2)
    return {"memory_map": ours | {"frame_ms": frame, "of_plotly": ratio}, "plotly": theirs}


def _lab(jupyter: Jupyter, browser: Any, name: str, steps: int) -> dict[str, Any]:
    """As many steps as there are, ``steps`` at most."""
    before, cell = LABS[name]
    before += f"from pagedlab.viz import {name}\n{name}"
    lab, received = _open(jupyter, browser, f"{name}.ipynb", before, cell)
    first = lab.page.evaluate(FIRST_PAINT, ".pagedlab [data-id]")
    start = received[0]
    left = lab.page.evaluate("(({steps, position}) => steps - position)(document.querySelector('.pagedlab').dataset)")
    times = [lab.page.evaluate(OURS_CLICK, "step") for _ in range(min(steps, left))]
    lab.page.wait_for_timeout(200)
    size = (received[0] - start) / len(times)
    lab.close()
    return _figures(first, size, step=times)


def _figures(first: float, size: float, **times: list[float]) -> dict[str, Any]:
    medians = {f"{name}_ms": round(statistics.median(values), 1) for name, values in times.items()}
    every = {f"{name}_every_ms": [round(value, 1) for value in values] for name, values in times.items()}
    return {"first_paint_ms": round(first, 1), "bytes_per_step": round(size)} | medians | every


def run(*, steps: int = 20, json: bool = False, out: Path | None = None) -> dict[str, Any]:
    """Measure and print (a table, or one JSON object); keep the raw figures in ``out``."""
    check_writable(out)
    started = time.perf_counter()
    result = measure(steps) | {"steps": steps}
    result["seconds"] = round(time.perf_counter() - started, 1)
    keep(result, out)
    print(json_module.dumps(result) if json else _table(result))
    return result


def _table(result: dict[str, Any]) -> str:
    ours, plotly = result["memory_map"], result["plotly"]
    rows = [
        ("", "memory map", "plotly"),
        ("run cell to first paint, ms", ours["first_paint_ms"], plotly["first_paint_ms"]),
        ("click to painted, the kernel works, ms", ours["engine_ms"], plotly["update_ms"]),
        ("  of which the engine's own step, ms", ours["engine_itself_ms"], "-"),
        ("  without it, ms", ours["without_engine_ms"], plotly["update_ms"]),
        ("  without it, of plotly's time", ours["of_plotly"], 1),
        ("click to painted, a step seen before, ms", ours["seen_ms"], "-"),
        ("one frame, while nothing changes, ms", ours["frame_ms"], "-"),
        ("bytes received per step, all in all", ours["bytes_per_step"], plotly["bytes_per_step"]),
        ("", "", ""),
        ("every lab, over a run that is over", "ms a click", "clicks"),
        *((f"  {name}", lab["step_ms"], len(lab["step_every_ms"])) for name, lab in result["labs"].items()),
    ]
    head = f"{result['blocks']} blocks of {result['block_size']} slots, medians of {result['steps']} steps"
    return "\n".join([head, *(f"{name:<42}{one!s:>12}{two!s:>12}".rstrip() for name, one, two in rows)])
