"""Runs notebooks and stores their outputs: ``python tools/run_notebooks.py notebooks/*.ipynb``.

What is stored is what a reader on GitHub sees: every cell's real output, each lab's last picture. What is not: widget
state (it breaks GitHub's view), times of execution, and anything that names this machine.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from tqdm import tqdm

from pagedlab.grading.make_exercises import colab_source
from pagedlab.viz.stored import without_live_views


def run(path: Path) -> None:
    """Execute the notebook from top to bottom in its own folder and write it back. Raises where a cell does."""
    notebook = with_colab_cell(nbformat.read(path, as_version=4))
    NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(path.parent)}}
    ).execute()
    clean(notebook)
    nbformat.write(notebook, path)


def with_colab_cell(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Today's folded cell that sets up Colab, behind the title."""
    notebook.cells = [cell for cell in notebook.cells if "colab" not in cell.metadata.get("tags", [])]
    metadata = {"tags": ["colab"], "cellView": "form", "jupyter": {"source_hidden": True}}
    notebook.cells.insert(1, nbformat.v4.new_code_cell(colab_source(), metadata=metadata))
    return notebook


def clean(notebook: nbformat.NotebookNode) -> None:
    """Drop what must not be stored, in place."""
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    stamp(notebook)
    for number, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{number}"  # stable, so that a second run changes only what really changed
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if not is_left_over(output)]
    without_live_views(notebook)


def is_left_over(output: nbformat.NotebookNode) -> bool:
    """Of a progress bar: what went to stderr, or the empty place of one that has vanished (where a cell was slow)."""
    return output.get("name") == "stderr" or not any(output.get("data", {"shown": True}).values())


def stamp(notebook: nbformat.NotebookNode) -> None:
    """Write beside each output which code made it: a hash of this cell and all before it."""
    code = hashlib.sha256()
    for cell in notebook.cells:
        if cell.cell_type == "code":
            code.update(cell.source.encode() + b"\0")
            cell.metadata["made_by"] = code.hexdigest()[:16]


if __name__ == "__main__":
    for name in tqdm([Path(argument) for argument in sys.argv[1:]], unit="notebook"):
        run(name)
