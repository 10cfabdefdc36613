"""Runs a restored notebook under nbval: every cell in one kernel, and each check's line against the reference's."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output, new_raw_cell

from pagedlab.grading.contain import Contained, Limits, scratch
from pagedlab.grading.notebook import Cell, check_line

CELL_SECONDS = 60
# Room for the real model in fp32 and its pool.
LIMITS = Limits(seconds=300, memory_bytes=8 << 30)


def run_nbval(
    cells: list[Cell], *, limits: Limits = LIMITS, cell_seconds: float = CELL_SECONDS, hidden: Sequence[str] = ()
) -> dict[str, str]:
    """Run a restored notebook. For each check's part: "" where it passed cleanly, else why not. ``hidden``: files that
    it is not to read.

    Runs ``pytest --nbval`` in a process of its own, in an empty folder. Only check cells carry outputs, so only
    they are compared.
    """
    with scratch("pagedlab-nbval-") as folder:
        nbformat.write(_as_notebook(cells), folder / "notebook.ipynb")
        (folder / "pytest.ini").write_text("[pytest]\n")  # nobody's settings, wherever the folder is
        result = folder / "result.json"
        command = [
            sys.executable,
            "-P",
            "-m",
            "pytest",
            "-q",
            "-c",
            "pytest.ini",
            "--rootdir",
            str(folder),
            "--noconftest",
            "-p",
            "nbval.plugin",
            "-p",
            "pagedlab.grading.nbval_plugin",
            "-p",
            "no:cacheprovider",
            "--nbval",
            "--nbval-current-env",
            f"--nbval-cell-timeout={cell_seconds}",
            "notebook.ipynb",
        ]
        env = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PAGEDLAB_NBVAL_RESULT": str(result)}
        limits = replace(limits, hidden=tuple(hidden))
        with Contained(command, cwd=folder, log=folder / "log.txt", limits=limits, env=env) as process:
            ending = process.wait()
        return _read(result, cells, f"the notebook's run did not come to its end: {ending}")


def _as_notebook(cells: list[Cell]) -> nbformat.NotebookNode:
    made = []
    for cell in cells:
        if cell.kind == "markdown":
            made.append(new_markdown_cell(cell.source))
        elif cell.kind == "code" and cell.role == "check":
            output = new_output("stream", name="stdout", text=check_line(cell) + "\n")
            made.append(new_code_cell(cell.source, execution_count=1, outputs=[output]))
        elif cell.kind == "code":
            made.append(new_code_cell(cell.source))  # never run, nbval thinks, and compares nothing
        else:
            made.append(new_raw_cell(cell.source))
    return new_notebook(
        cells=made,
        metadata={
            "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
    )


def _read(result: Path, cells: list[Cell], otherwise: str) -> dict[str, str]:
    try:
        by_number = json.loads(result.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        by_number = {}
    verdicts = {}
    code = [cell for cell in cells if cell.kind == "code"]
    for number, cell in enumerate(code):
        if cell.role == "check":
            seen = by_number.get(str(number))
            if seen is None:
                verdicts[cell.part] = otherwise
            else:
                verdicts[cell.part] = "" if seen["clean"] and seen["ran"] else _reason(seen["message"])
    return verdicts


def _reason(message: str) -> str:
    """The line that says most: an error's own words, else nbval's."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    for line in reversed(lines):
        if line.startswith(("But:", "✗", "Timeout", "RuntimeError")) or "Error:" in line:
            return line[:300]
    return lines[-1][:300] if lines else "the check did not run"
