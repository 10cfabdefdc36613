"""Chapter 15, run from top to bottom in a kernel of this Python."""

import json
from pathlib import Path

import nbformat
from nbclient import NotebookClient

CHAPTER = Path(__file__).resolve().parents[2] / "notebooks" / "15_under_the_glass.ipynb"


def its_live_part(server: str, last_cell: str) -> dict:
    """What ``last_cell`` prints as JSON; ``lab`` is there what the chapter shows live. ``server``: an address or ""."""
    notebook = nbformat.read(CHAPTER, as_version=4)
    (settings,) = [cell for cell in notebook.cells if cell.source.startswith("import importlib.util\n\nSERVER = ")]
    (shows,) = [cell for cell in notebook.cells if cell.source.startswith("live() or print")]
    assert 'SERVER = ""' in settings.source
    settings.source = settings.source.replace('SERVER = ""', f"SERVER = {server!r}")
    shows.source = "lab = live()\nlab"
    notebook.cells.append(nbformat.v4.new_code_cell(last_cell))
    where = {"metadata": {"path": str(CHAPTER.parent)}}
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources=where).execute()
    assert any("application/vnd.jupyter.widget-view+json" in one.get("data", {}) for one in shows.outputs)
    return json.loads("".join(one["text"] for one in notebook.cells[-1].outputs if one.get("name") == "stdout"))
