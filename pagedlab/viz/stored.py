"""What of a lab is kept in a stored notebook."""

from __future__ import annotations

from typing import Any

_VIEW = "application/vnd.jupyter.widget-view+json"


def without_live_views(notebook: Any) -> Any:
    """The notebook (nbformat, changed in place) with the pictures of its widgets instead of the widgets.

    A stored live view points at a kernel that is gone, and JupyterLab would show an error in its place; broken widget
    state in the metadata keeps GitHub from showing the notebook at all.
    """
    notebook.metadata.pop("widgets", None)
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if len(data) > 1:
                data.pop(_VIEW, None)
    return notebook
