"""Makes ``exercises/`` and the grader's references from ``solutions/``, the one source. Needs nbgrader (``pip
install -e '.[dev]'``).

    python -m pagedlab.grading.make_exercises            write both
    python -m pagedlab.grading.make_exercises --execute  first run every solution and keep its outputs

A reference is the solution without its answers, with the lines that its checks print: all that the grader needs, so
that an installed package can grade and still holds no solution notebook.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import nbformat

from pagedlab.grading.notebook import COLAB_ID

ROOT = Path(__file__).resolve().parents[2]
KERNEL = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def execute(nb: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Run a solution from top to bottom and keep its outputs. Raises nbclient's CellExecutionError where a cell
    fails."""
    from nbclient import NotebookClient

    NotebookClient(nb, timeout=120, kernel_name="python3").execute()
    return tidy(nb)


def tidy(nb: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Without what changes from run to run and says nothing: times, widget state, streams cut in pieces."""
    from pagedlab.viz.stored import without_live_views

    without_live_views(nb)
    nb.metadata = nbformat.from_dict(KERNEL | {"pagedlab": nb.metadata.get("pagedlab", {})})
    count = 0
    for cell in nb.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            count += 1
            if cell.execution_count is not None:
                cell.execution_count = count
            cell.outputs = _joined(cell.outputs)
    return nb


def _joined(outputs: list) -> list:
    joined: list = []
    for output in outputs:
        if joined and output.output_type == "stream" == joined[-1].output_type and output.name == joined[-1].name:
            joined[-1].text += output.text
        else:
            joined.append(output)
    return joined


def cleared(solution: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """The solution with nbgrader's stub in place of every answer, and no outputs."""
    from nbgrader.preprocessors import ClearSolutions

    nb = nbformat.from_dict(solution)
    nb, _ = ClearSolutions().preprocess(nb, {})
    for cell in nb.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    return nb


def with_colab_cell(nb: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """With the cell that sets up Colab behind the title, folded.

    It has no metadata of nbgrader's: autograde refuses a cell with some that is not in the source notebook.
    """
    cell = nbformat.v4.new_code_cell(colab_source(), id=COLAB_ID)
    cell.metadata.update({"cellView": "form", "jupyter": {"source_hidden": True}})
    nb.cells.insert(1, cell)
    return nb


def colab_source(course: str = "") -> str:
    text = Path(__file__).with_name("colab_cell.py").read_text(encoding="utf-8").rstrip("\n")
    return text.replace('COURSE = ""', f"COURSE = {json.dumps(course)}", 1)


def exercise(solution: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """What learners get: no answers; outputs only above the first answer, where they are the real run that the text
    speaks of."""
    nb = cleared(solution)
    for cell, original in zip(nb.cells, solution.cells, strict=True):
        if cell.metadata.get("nbgrader", {}).get("solution"):
            break
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = original.outputs, original.execution_count
    return with_colab_cell(nb)


def reference(solution: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """What the grader gets: no answers, and the lines of the checks."""
    nb = cleared(solution)
    for cell, original in zip(nb.cells, solution.cells, strict=True):
        if cell.metadata.get("nbgrader", {}).get("grade"):
            cell.outputs, cell.execution_count = original.outputs, original.execution_count
    return with_colab_cell(nb)


def text_of(nb: nbformat.NotebookNode) -> str:
    """The notebook as its file is written: one text for one content."""
    return nbformat.writes(nb, version=4) + "\n"


def targets(root: Path = ROOT) -> dict[Path, str]:
    """Every generated file and what it must hold."""
    made = {}
    for path in sorted((root / "solutions").glob("[0-9]*.ipynb")):
        solution = nbformat.read(path, as_version=4)
        made[root / "exercises" / path.name] = text_of(exercise(solution))
        made[root / "pagedlab" / "grading" / "reference" / path.name] = text_of(reference(solution))
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--execute", action="store_true", help="run every solution first and keep its outputs")
    parser.add_argument("numbers", nargs="*", help="with --execute: only these, for example 03")
    arguments = parser.parse_args()
    if arguments.execute:
        write()  # a check looks up in its reference what the notebook gives the learner
        for path in sorted((ROOT / "solutions").glob("[0-9]*.ipynb")):
            if not arguments.numbers or path.name[:2] in arguments.numbers:
                path.write_text(text_of(execute(nbformat.read(path, as_version=4))), encoding="utf-8")
                print(f"ran {path.relative_to(ROOT)}")
    for path in write():
        print(f"wrote {path.relative_to(ROOT)}")


def write() -> list[Path]:
    """Write every generated file; their paths."""
    made = targets()
    for path, text in made.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return list(made)


if __name__ == "__main__":
    sys.exit(main())
