"""nbval's part in a grade: only a check that passes cleanly in a notebook run from top to bottom counts."""

import nbformat
import pytest
from submissions import ROOT

from pagedlab.grading.grade import grade
from pagedlab.grading.nbval_run import run_nbval
from pagedlab.grading.notebook import Cell

pytestmark = [pytest.mark.slow, pytest.mark.notebook]
LINE = "✓ all is well\n"


def check(name, source):
    outputs = [{"output_type": "stream", "name": "stdout", "text": LINE}]
    return Cell("code", source, role="check", part=name, outputs=outputs)


def test_only_a_plain_pass_with_the_references_line_counts():
    seen = run_nbval([
        Cell("markdown", "# text"),
        check("right", "print('✓ all is well')"),
        check("other line", "print('✗ not at all')"),
        check("more than the line", "print('✓ all is well'); print('and more')"),
        check("raises", "print('✓ all is well'); raise ValueError('no')"),
        Cell("code", "raise ValueError('a learner may leave an error in a cell of their own')"),
        check("right again", "print('✓ all is well')"),
    ])
    assert {name for name, reason in seen.items() if not reason} == {"right", "right again"}
    assert "no" in seen["raises"]


def test_after_a_time_out_an_expected_failure_that_passes_is_no_pass():
    seen = run_nbval([
        check("before", "print('✓ all is well')"),
        Cell("code", "while True: pass"),
        check("after", "print('✓ all is well')"),
    ], cell_seconds=3)
    assert not seen["before"] and seen["after"]


def test_a_dead_kernel_fails_the_checks_below_it_and_no_others():
    seen = run_nbval([
        check("before", "print('✓ all is well')"),
        Cell("code", "import os; os._exit(0)"),
        check("after", "print('✓ all is well')"),
    ], cell_seconds=3)
    assert not seen["before"] and seen["after"]


def test_a_run_that_kills_pytest_fails_all_its_checks():
    seen = run_nbval([
        check("before", "print('✓ all is well')"),
        Cell("code", "import os, signal; os.kill(os.getppid(), signal.SIGKILL)"),
    ])
    assert "did not come to its end" in seen["before"]


def test_a_full_grade_of_a_notebook_with_all_that_learners_do_to_notebooks(submission):
    """Foreign kernel, wrong saved outputs, edited checks, prints, warnings, marks for nbval, an error of their own."""

    def change(nb):
        nb.metadata.kernelspec = {"name": "xpython-mine", "display_name": "Mine", "language": "python"}
        for cell in nb.cells:
            if cell.cell_type == "code":
                cell.execution_count, cell.outputs = 5, [nbformat.v4.new_output("stream", text="✗ no\n")]
                if cell.metadata.get("nbgrader", {}).get("grade"):
                    cell.source = cell.source.splitlines()[1] + "\nprint('✓')"

    chatty = """# part 03.2
# NBVAL_SKIP
import warnings
def slot_mapping(block_ids, block_size, start, end, pad_to=0):
    print("slots from", start)
    warnings.warn("this is my own warning")
    slots = [block_ids[p // block_size] * block_size + p % block_size for p in range(start, end)]
    return slots + [-1] * (pad_to - len(slots))
slot_mapping([1], 4, 0, 2)"""
    result = grade(submission({"03.2": chatty, "added": "%%time\n1 / 0"}, change=change))
    assert (result.earned, result.points) == (10, 10), result.checks


def test_what_is_right_by_itself_but_broken_in_the_notebook_gets_no_points(submission):
    def spoil(nb):
        ids = [cell.metadata.get("nbgrader", {}).get("grade_id") for cell in nb.cells]
        place = ids.index("check-03-3")
        nb.cells.insert(place, nbformat.v4.new_code_cell("SEED = 20"))

    result = grade(submission(change=spoil))
    assert [check.earned for check in result.checks] == [3, 3, 0, 0]
    assert "from top to bottom" in result.checks[2].reason


def test_the_solution_gets_all_points():
    result = grade(ROOT / "solutions" / "03_block_table.ipynb")
    assert (result.earned, result.points) == (10, 10), result.checks
