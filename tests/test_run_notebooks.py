"""What ``tools/run_notebooks.py`` keeps of a run."""

import importlib.util
from pathlib import Path

import nbformat.v4 as v4

TOOL = Path(__file__).resolve().parent.parent / "tools" / "run_notebooks.py"


def test_of_a_progress_bar_nothing_is_stored_and_all_else_is():
    spec = importlib.util.spec_from_file_location("run_notebooks", TOOL)
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    kept = [
        v4.new_output("stream", name="stdout", text="3 blocks\n"),
        v4.new_output("display_data", data={"text/html": "<b>a table</b>"}),
        v4.new_output("execute_result", data={"image/svg+xml": "<svg/>", "text/plain": ""}),
    ]
    bar = [
        v4.new_output("stream", name="stderr", text="50 %"),
        v4.new_output("display_data", data={"text/html": ""}),  # a slow cell's, which has vanished
    ]
    notebook = v4.new_notebook(cells=[v4.new_code_cell("x", outputs=[*bar, *kept, *bar])])
    tool.clean(notebook)
    assert notebook.cells[0].outputs == kept
