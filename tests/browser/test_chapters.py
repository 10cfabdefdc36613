"""Chapters as a reader meets them: opened in JupyterLab, run from top to bottom, the lab stepped."""

import shutil
from pathlib import Path

import pytest

pytestmark = pytest.mark.browser
NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"


@pytest.mark.parametrize(
    "name", ["00_start_here", "03_block_table", "09_turning_the_knobs", "10_reading_vllm", "15_under_the_glass"]
)
def test_a_chapter_runs_from_top_to_bottom_and_its_lab_steps(lab_page, jupyter, artifacts, name):
    shutil.copy(NOTEBOOKS / f"{name}.ipynb", jupyter.root)
    lab_page.open(f"{name}.ipynb")
    lab_page.run_all(timeout=240_000)
    assert not lab_page.page.locator(".jp-OutputArea-output[data-mime-type='application/vnd.jupyter.error']").count()
    # JupyterLab draws only the cells near the screen: find the lab's cell through the model, then go there.
    lab_page.page.evaluate(
        """() => { const notebook = window.jupyterapp.shell.currentWidget.content;
                   const i = notebook.widgets.findIndex(cell => /memory_map\\(/.test(cell.model.sharedModel.source));
                   notebook.activeCellIndex = i; notebook.scrollToItem(i, "start"); }"""
    )
    lab = lab_page.page.locator(".pagedlab").first
    lab.wait_for(timeout=30_000)
    before = int(lab.get_attribute("data-position"))
    lab.locator("[data-do=step]").click()
    lab_page.page.wait_for_function(
        "p => document.querySelector('.pagedlab').dataset.position === String(p)", arg=before + 1, timeout=30_000
    )
    lab_page.page.wait_for_timeout(700)  # let what moves arrive
    lab.screenshot(path=artifacts / f"chapter-{name}.png")
