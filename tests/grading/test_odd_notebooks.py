"""Whatever an editor or a learner does to a notebook around the answers, the answers are found and count."""

import json
import os

import nbformat
import pytest
from submissions import ROOT

from pagedlab.errors import PagedlabError
from pagedlab.grading.command import run
from pagedlab.grading.grade import grade
from pagedlab.grading.notebook import read_cells, read_reference, seed_of
from pagedlab.grading.restore import restore


def by_id(nb, grade_id):
    return next(i for i, cell in enumerate(nb.cells) if cell.metadata.get("nbgrader", {}).get("grade_id") == grade_id)


def lose_metadata(nb):
    """What Colab and some editors leave of a cell: its text."""
    for cell in nb.cells:
        cell.metadata, cell["id"] = {}, f"new-{id(cell)}"


def split_cells(nb):
    """Each learner's cell cut in two: the second half keeps the metadata, and lacks the `# part` line."""
    for i in range(len(nb.cells) - 1, -1, -1):
        cell = nb.cells[i]
        if cell.metadata.get("nbgrader", {}).get("solution") and "def locate" not in cell.source:
            first, rest = cell.source.split("\n", 1)
            other = nbformat.v4.new_code_cell(rest)
            other.metadata = cell.metadata
            cell.source = first
            nb.cells.insert(i + 1, other)


def split_without_metadata(nb):
    split_cells(nb)
    lose_metadata(nb)


def duplicate(nb):
    """An old, wrong attempt above the right one, both with the same identity."""
    i = by_id(nb, "part-03-2")
    old = nbformat.from_dict(nb.cells[i])
    old.id = "another"
    old.source = "# part 03.2\nslot_mapping = None"
    nb.cells.insert(i, old)


def foreign_kernel(nb):
    nb.metadata.kernelspec = {"name": "xpython-mine", "display_name": "Mine", "language": "python"}


def edit_checks(nb):
    for i in (1, 2, 3, 4):
        nb.cells[by_id(nb, f"check-03-{i}")].source = f"# check 03.{i}\nprint('✓ all is well')"


def save_wrong_outputs(nb):
    for cell in nb.cells:
        if cell.cell_type == "code":
            cell.execution_count = 99
            cell.outputs = [nbformat.v4.new_output("stream", text="✗ no\n")]


def delete_ours(nb):
    nb.cells = [cell for cell in nb.cells if cell.metadata.get("nbgrader", {}).get("solution")]


def reorder(nb):
    nb.cells.reverse()


def old_format(nb):
    nb.nbformat_minor = 0
    for cell in nb.cells:
        del cell["id"]


GRADED = [lose_metadata, split_cells, split_without_metadata, duplicate, foreign_kernel, edit_checks,
          save_wrong_outputs, delete_ours, reorder, old_format]


@pytest.mark.slow
@pytest.mark.parametrize("change", GRADED, ids=lambda change: change.__name__)
def test_right_answers_in_an_odd_notebook_get_all_points(change, submission):
    result = grade(submission(change=change), with_nbval=False)
    assert result.earned == 10, result.checks


def test_a_deleted_answer_loses_its_points_and_says_how_its_cell_must_begin(submission):
    def delete(nb):
        del nb.cells[by_id(nb, "part-03-2")]

    result = grade(submission(change=delete), with_nbval=False)
    assert [check.earned for check in result.checks] == [3, 0, 2, 2]
    assert "# part 03.2" in result.checks[1].reason


def test_the_visible_part_line_counts_more_than_metadata(submission):
    def copied_cell(nb):  # somebody copied the cell of part 3 to begin part 4 with it
        nb.cells[by_id(nb, "part-03-4")].metadata.nbgrader.grade_id = "part-03-3"

    assert grade(submission(change=copied_cell), with_nbval=False).earned == 10


def test_the_seed_is_the_submissions_and_a_prediction_for_another_one_is_wrong(submission):
    def other_seed(nb):
        cell = nb.cells[by_id(nb, "03-puzzle")]
        cell.source = cell.source.replace("SEED = 47", "SEED = 20")

    mine = {"03.3": "# part 03.3\ntable_after_prefill = [2, 1, 6]\ntokens_in_block = [4, 4, 3]"}
    result = grade(submission(mine, change=other_seed), with_nbval=False)
    assert result.seed == 20
    assert [check.earned for check in result.checks] == [3, 3, 2, 0]


def test_nbvals_marks_are_taken_out_of_all_cells_but_ours(submission):
    marked = "# part 03.1\n  # NBVAL_RAISES_EXCEPTION\n%matplotlib inline\nx = 7"
    answers = {"added": "x = 1\n#NBVAL_SKIP", "03.1": marked}
    result = restore(read_reference("03"), read_cells(submission(answers)))
    text = "\n".join(cell.source for cell in result.cells if cell.role != "check")
    assert "NBVAL" not in text and "%matplotlib inline\nx = 7" in text
    assert all("# NBVAL_CHECK_OUTPUT" in cell.source for cell in result.cells if cell.role == "check")
    assert any("marks for nbval" in note for note in result.notes)


def test_the_graders_seed_goes_into_every_cell_that_says_one(submission):
    path = submission({"added": "SEED = 3"})
    assert seed_of(restore(read_reference("03"), read_cells(path)).cells) == 3
    cells = restore(read_reference("03"), read_cells(path), 4711).cells
    assert not [cell for cell in cells if "SEED = 3" in cell.source or "SEED = 47\n" in cell.source]


BAD = {
    "missing": None,
    "empty": b"",
    "no_json": b"PK\x03\x04 this is no notebook",
    "no_text": bytes(range(256)),
    "cut_off": b'{"cells": [{"cell_type": "code", "sou',
    "other_json": b"[1, 2, 3]",
    "no_cells": b'{"nbformat": 4, "cells": 7}',
    "odd_cells": b'{"nbformat": 4, "cells": [7]}',
    "deep": b"[" * 100_000,
    "foreign": json.dumps(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("print(1)")])).encode(),
    "exercise_99": json.dumps(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("# part 99.1")])).encode(),
}


@pytest.mark.parametrize("what", BAD)
def test_what_cannot_be_graded_gets_one_clear_sentence_and_status_2(what, tmp_path, capsys):
    path = tmp_path / f"{what}.ipynb"
    if BAD[what] is not None:
        path.write_bytes(BAD[what])
    assert run([path]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert path.name in printed.err and printed.err.count("\n") == 1 and "Traceback" not in printed.err


def test_a_pipe_and_an_empty_folder_are_refused_at_once(tmp_path):
    pipe = tmp_path / "pipe.ipynb"
    os.mkfifo(pipe)
    (tmp_path / "empty").mkdir()
    assert run([pipe, tmp_path / "empty"]) == 2


def test_no_paths_or_a_score_that_is_no_percentage_is_a_clear_error():
    with pytest.raises(PagedlabError, match="at least one notebook"):
        run([])
    with pytest.raises(PagedlabError, match="percentage"):
        run([ROOT / "exercises" / "03_block_table.ipynb"], min_score=101)


def test_a_folder_is_graded_whole_and_what_cannot_be_graded_keeps_nothing_from_being_graded(
    submission, tmp_path, capsys
):
    wrong = {f"03.{i}": f"# part 03.{i}\n1 / 0" for i in (1, 2, 3, 4)}
    submission(wrong, name="a.ipynb")
    (tmp_path / "b.ipynb").write_text("{")
    submission(wrong, name="c.ipynb")
    result = tmp_path / "result.json"
    assert run([tmp_path], json_path=result) == 2
    graded = [(os.path.basename(one["path"]), one.get("earned")) for one in json.loads(result.read_text())]
    assert graded == [("a.ipynb", 0), ("b.ipynb", None), ("c.ipynb", 0)]
    assert "b.ipynb" in capsys.readouterr().err


def test_min_score_decides_the_exit_status():
    assert run([ROOT / "exercises" / "03_block_table.ipynb"], min_score=1) == 1
    assert run([ROOT / "exercises" / "03_block_table.ipynb"], min_score=0) == 0


@pytest.mark.parametrize("text", ["{}", '{"nbformat": 3}', '{"nbformat": 2, "cells": 5}', '{"nbformat": 99}'])
def test_json_that_is_no_notebook_of_any_format_is_refused_and_its_class_is_graded(text, tmp_path, capsys):
    (tmp_path / "class").mkdir()
    for name in ("a.ipynb", "b.ipynb"):
        (tmp_path / "class" / name).write_text(text)
    assert run([tmp_path / "class"], jobs=1) == 2 and run([tmp_path / "class" / "a.ipynb"]) == 2
    assert capsys.readouterr().err.count("is not a notebook") == 3
