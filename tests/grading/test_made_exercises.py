"""exercises/ and the grader's references are what solutions/ makes of them, and solutions/ are what they should be."""

import nbformat
import pytest
from nbgrader.nbgraderformat import MetadataValidator
from submissions import ROOT

from pagedlab.errors import PagedlabError
from pagedlab.grading import notebook
from pagedlab.grading.make_exercises import KERNEL, targets
from pagedlab.grading.notebook import read_cells, read_reference
from pagedlab.grading.part import EXERCISES, load_exercise

SOLUTIONS = sorted((ROOT / "solutions").glob("*.ipynb"))


def nbgrader(cell):
    return cell.metadata.get("nbgrader", {})


def test_exercises_and_references_are_the_ones_that_the_solutions_make():
    made = targets(ROOT)
    there = {*(ROOT / "exercises").glob("*.ipynb"), *(ROOT / "pagedlab" / "grading" / "reference").glob("*.ipynb")}
    assert set(made) == there
    stale = [path.name for path, text in made.items() if path.read_text() != text]
    assert not stale, "run `make exercises`"


def test_there_is_a_solution_for_every_exercise_that_the_grader_knows():
    assert [path.stem for path in SOLUTIONS] == [load_exercise(number).name for number in EXERCISES]


@pytest.mark.parametrize("path", SOLUTIONS, ids=lambda path: path.stem)
def test_a_solution_is_a_notebook_that_nbgrader_and_the_grader_understand(path):
    nb = nbformat.read(path, as_version=4)
    nbformat.validate(nb)
    exercise = load_exercise(path.stem[:2])
    assert {key: nb.metadata[key] for key in KERNEL} == KERNEL
    assert "widgets" not in nb.metadata
    MetadataValidator().validate_nb(nb)
    assert all(nbgrader(cell)["locked"] != nbgrader(cell)["solution"] for cell in nb.cells)
    ids = [nbgrader(cell)["grade_id"] for cell in nb.cells]
    assert len(ids) == len(set(ids))
    for part in exercise.parts:
        name = part.name.replace(".", "-")
        cell, check = nb.cells[ids.index(f"part-{name}")], nb.cells[ids.index(f"check-{name}")]
        assert cell.source.startswith(f"# part {part.name}\n") and "### BEGIN SOLUTION" in cell.source
        assert check.source.startswith(f"# NBVAL_CHECK_OUTPUT\n# check {part.name}\ncheck(\"{part.name}\"")
        assert nbgrader(check)["points"] == part.points


@pytest.mark.parametrize("path", SOLUTIONS, ids=lambda path: path.stem)
def test_a_solutions_stored_outputs_are_there_and_without_errors(path):
    nb = nbformat.read(path, as_version=4)
    code = [cell for cell in nb.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    outputs = [output for cell in code for output in cell.outputs]
    assert not [output for output in outputs if output.output_type == "error" or output.get("name") == "stderr"]


def test_an_exercise_shows_no_answers_not_even_in_its_outputs():
    for path in (ROOT / "exercises").glob("*.ipynb"):
        nb = nbformat.read(path, as_version=4)
        first = next(i for i, cell in enumerate(nb.cells) if nbgrader(cell).get("solution"))
        assert "BEGIN SOLUTION" not in path.read_text()
        code = [cell for cell in nb.cells[first:] if cell.cell_type == "code"]
        assert not [cell for cell in code if cell.outputs or cell.execution_count]


@pytest.mark.parametrize("output", [[], [{"output_type": "stream", "name": "stdout", "text": "✗ 03.1 no\n"}]])
def test_a_reference_whose_check_was_not_run_or_failed_is_refused(output, tmp_path, monkeypatch):
    nb = nbformat.read(notebook.REFERENCE / "03_block_table.ipynb", as_version=4)
    check = next(cell for cell in nb.cells if nbgrader(cell).get("grade_id") == "check-03-1")
    check.outputs = [nbformat.from_dict(one) for one in output]
    nbformat.write(nb, tmp_path / "03_block_table.ipynb")
    monkeypatch.setattr(notebook, "REFERENCE", tmp_path)
    with pytest.raises(PagedlabError, match="cannot be graded against"):
        read_reference("03")


def test_the_reference_holds_no_answers():
    for path in notebook.REFERENCE.glob("*.ipynb"):
        answers = [cell.source for cell in read_cells(path) if cell.role == "learner"]
        assert answers and all("raise NotImplementedError()" in source for source in answers)
