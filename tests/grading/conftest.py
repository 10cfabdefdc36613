"""Builds submissions: an exercise as shipped, with answers put into it."""

from dataclasses import replace

import nbformat
import pytest
from submissions import ROOT, in_wgsl, learner_cell

from pagedlab.grading.exercises import ex03
from pagedlab.grading.part import load_exercise
from pagedlab.kernels import available


@pytest.fixture
def solution():
    return nbformat.read(ROOT / "solutions" / "03_block_table.ipynb", as_version=4)


@pytest.fixture
def submission(tmp_path):
    """A function: answers by part -> the path of a saved submission. Parts that are not given are right.

    ``number``: which exercise; ``as_shipped``: parts that are not given are as the learner gets them; ``with_run``: the
    cell that runs the real model, which no part asks for, is there as well. It takes longer than all the others.
    """

    def build(answers=None, change=None, name="submission.ipynb", number="03", as_shipped=False, with_run=False):
        file = f"{load_exercise(number).name}.ipynb"
        nb = nbformat.read(ROOT / "exercises" / file, as_version=4)
        solution = nbformat.read(ROOT / "solutions" / file, as_version=4)
        for cell in nb.cells:
            if cell.metadata.get("nbgrader", {}).get("solution"):
                part = cell.source.split()[2]
                rest = cell if as_shipped else learner_cell(solution, part)
                right = rest.source if available() else in_wgsl(rest.source)
                cell.source = (answers or {}).get(part, right)
        if not with_run:
            (run,) = [cell for cell in nb.cells if '"smollm2"' in cell.source] or [None]
            nb.cells = [cell for cell in nb.cells if cell is not run]
        if answers and "added" in answers:
            nb.cells.insert(3, nbformat.v4.new_code_cell(answers["added"]))
        if change:
            change(nb)
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(nb, path)
        return path

    return build


@pytest.fixture
def quick_limits(monkeypatch):
    """Two seconds for an answer, eight for the cells to run, 2 GiB: so that loops and hoards make no long tests."""
    limits = {"seconds_a_case": 2.0, "seconds_to_load": 8.0, "memory_bytes": 2 << 30}
    parts = tuple(replace(part, **limits) for part in ex03.EXERCISE.parts)
    monkeypatch.setattr(ex03, "EXERCISE", replace(ex03.EXERCISE, parts=parts))
