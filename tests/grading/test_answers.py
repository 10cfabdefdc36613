"""Wrong answers lose exactly the points that they should; right ones, however they are written, lose none.

Here through a whole grading, in a process of its own; those in folders ``more`` only in forks (``test_mutants.py``).
"""

import pytest
from submissions import MUTANTS, ROOT, answers_of, loses, mutants_in

from pagedlab.grading.grade import grade
from pagedlab.grading.part import EXERCISES, load_exercise

FILES = mutants_in(MUTANTS, "[01]*/*")


def handed_in():
    """The files, in as few notebooks as hold them: those that answer other parts of one exercise lie in one."""
    notebooks = []
    for file in FILES:
        for held in notebooks:
            if held[0].parent == file.parent and not answers_of(file).keys() & set().union(*map(answers_of, held)):
                held.append(file)
                break
        else:
            notebooks.append([file])
    return [pytest.param(held, id=f"{held[0].parent.name}-{'+'.join(one.stem for one in held)}") for held in notebooks]


@pytest.mark.slow
@pytest.mark.parametrize("held", handed_in())
def test_an_answer_loses_the_points_it_should_and_no_others(held, submission):
    answers, lost = {}, set().union(*map(loses, held))
    for file in held:
        answers |= answers_of(file)
    with_run = not all(map(loses, held))
    result = grade(submission(answers, number=held[0].parent.name, with_run=with_run), with_nbval=False)
    assert {check.name for check in result.checks if check.earned == 0} == lost, result.checks
    assert all(check.earned == check.points for check in result.checks if check.name not in lost)


def test_there_are_enough_wrong_and_right_answers():
    assert {file.parent.name for file in FILES} == set(EXERCISES)
    for folder in {file.parent for file in FILES}:
        wrong, right = (mutants_in(folder, f"**/{kind}_*") for kind in ("wrong", "right"))
        assert len(wrong) >= 20 and len(right) >= 2
        assert set().union(*map(loses, wrong)) == {part.name for part in load_exercise(folder.name).parts}


@pytest.mark.parametrize("number", EXERCISES)
def test_the_exercise_as_shipped_gets_nothing(number):
    exercise = load_exercise(number)
    result = grade(ROOT / "exercises" / f"{exercise.name}.ipynb")
    here = sum(part.points for part in exercise.parts if not part.missing())  # what needs Triton is counted apart
    assert (result.earned, result.points) == (0, here)


def test_code_that_reads_its_own_source_as_compilers_do_finds_it(submission):
    cell = """# part 03.4
import inspect
def seven():
    return 7
class Eight:
    def eight(self):
        return 8
assert "return 7" in inspect.getsource(seven) and "return 8" in inspect.getsource(Eight.eight)  # as in a kernel
new_blocks = [None, None, 5, None, None, None, 10]"""
    result = grade(submission({"03.4": cell}), with_nbval=False)
    assert result.earned == 10, result.checks


def test_code_that_raises_when_asked_is_told_its_line_and_a_class_what_it_lacks(submission):
    answers = {
        "03.1": "# part 03.1\nclass BlockTable:\n    def __init__(self, size): self.ids = []\n"
        "    def append(self, ids): self.ids += ids\n    def __len__(self): return len(self.ids)",
        "03.2": "# part 03.2\n\ndef slot_mapping(ids, size, start, end, pad_to=0):\n    return ids[end + 99]",
    }
    reasons = [check.reason for check in grade(submission(answers), with_nbval=False).checks]
    assert "locate(0) gave an error (your class BlockTable lacks `locate`)" in reasons[0]
    assert "IndexError: list index out of range (line 4 of your cell for part 03.2: return ids[end + 99])" in reasons[1]


def test_where_points_are_missing_the_reason_names_the_cell_and_the_line(submission):
    answers = {"03.2": "# part 03.2\n\n1 / 0", "03.4": "# part 03.4\nnew_blocks = [None,"}
    reasons = [check.reason for check in grade(submission(answers), with_nbval=False).checks]
    assert "slot_mapping is not defined; your cell for part 03.2, line 3: ZeroDivisionError" in reasons[1]
    assert "your cell for part 03.4, line 2: SyntaxError" in reasons[3]
