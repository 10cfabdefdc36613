"""What is ✓ in the notebook counts, however its cells lie: learners' layouts, each with right answers, judge and nbval
both; and what a layout may not gain."""

import nbformat
import pytest
from submissions import learner_cell

from pagedlab.grading.grade import grade
from pagedlab.grading.notebook import read_cells, read_reference
from pagedlab.grading.restore import restore

code = nbformat.v4.new_code_cell
WRONG_SLOTS = "# part 03.2\ndef slot_mapping(*args, **kwargs):\n    return [7]"


def at(nb, grade_id):
    return next(i for i, cell in enumerate(nb.cells) if cell.metadata.get("nbgrader", {}).get("grade_id") == grade_id)


def cell(nb, grade_id):
    return nb.cells[at(nb, grade_id)]


def uses_a_helper(nb):
    part = learner_cell(nb, "03.2")
    part.source = part.source.replace("pad_to=0):\n", "pad_to=0):\n    block_size = itself(block_size)\n")


def helper_in_the_set_up_cell(nb):
    cell(nb, "03-imports").source += "\n\ndef itself(x):\n    return x"
    uses_a_helper(nb)


def import_in_the_cell_of_the_run(nb):
    cell(nb, "03-run").source = "import operator\n" + cell(nb, "03-run").source + "\nitself = operator.pos"
    uses_a_helper(nb)


def helper_in_the_seed_cell(nb):
    cell(nb, "03-puzzle").source = "itself = lambda x: x\nSEED = 47\nprint('mine:', puzzle(SEED))"
    uses_a_helper(nb)
    nb.cells.insert(at(nb, "part-03-1"), nb.cells.pop(at(nb, "03-puzzle")))


def helper_in_a_check_cell(nb):
    cell(nb, "check-03-1").source += "\nimport operator\nitself = operator.pos"
    uses_a_helper(nb)


def helper_that_begins_with_check(nb):
    nb.cells.insert(at(nb, "part-03-2"), code("# check 03.2 by hand first\ndef itself(x):\n    return x"))
    uses_a_helper(nb)


def helper_of_two_parts(nb):
    nb.cells.insert(2, code("def itself(x):\n    return x"))
    uses_a_helper(nb)
    learner_cell(nb, "03.4").source = "# part 03.4\nnew_blocks = itself([None, None, 5, None, None, None, 10])"


def helper_changed_further_down(nb):
    nb.cells.insert(at(nb, "check-03-2") + 1, code("def itself(x):\n    return list(x)"))


def text_between(nb):
    nb.cells.insert(at(nb, "check-03-1"), nbformat.v4.new_markdown_cell('My notes: check("03.1", BlockTable) is ✓'))


def answer_in_pieces(nb):
    i = at(nb, "part-03-3")
    first, second, *rest = nb.cells[i].source.splitlines()
    nb.cells[i].source = f"{first}\n{second}"
    nb.cells.insert(i + 1, code("\n".join(rest)))


def answer_moved_below_its_check(nb):
    moved = nb.cells.pop(at(nb, "part-03-2"))
    nb.cells.insert(at(nb, "check-03-2") + 1, moved)


def answer_below_and_the_stub_still_above(nb):
    right = learner_cell(nb, "03.2").source
    learner_cell(nb, "03.2").source = "# part 03.2\ndef slot_mapping(*args, **kwargs):\n    raise NotImplementedError()"
    nb.cells.insert(at(nb, "check-03-2") + 1, code(right))


def old_attempt_above(nb):
    nb.cells.insert(at(nb, "part-03-2"), code(WRONG_SLOTS))


def old_attempt_with_its_check_above(nb):
    nb.cells[at(nb, "part-03-2"):at(nb, "part-03-2")] = [code(WRONG_SLOTS), code('check("03.2", slot_mapping)')]


def old_attempt_below(nb):
    nb.cells.insert(at(nb, "check-03-2") + 1, code(WRONG_SLOTS))


def metadata_lost(nb):
    for one in nb.cells:
        one.metadata, one["id"] = {}, f"new-{id(one)}"


def metadata_lost_and_checks_in_the_learners_words(nb):
    for i in (1, 2, 3, 4):
        part = cell(nb, f"check-03-{i}")
        part.source = f"# once more\n{part.source.splitlines()[-1]}"
    metadata_lost(nb)


def checks_in_the_answers_own_cells(nb):
    for i in (1, 2, 3, 4):
        call = cell(nb, f"check-03-{i}").source.splitlines()[-1]
        del nb.cells[at(nb, f"check-03-{i}")]
        cell(nb, f"part-03-{i}").source += f"\n{call}"
    metadata_lost(nb)


def magics(nb):
    learner_cell(nb, "03.2").source = "%%time\n" + learner_cell(nb, "03.2").source
    learner_cell(nb, "03.3").source += "\n%timeit -n1 -r1 sum(tokens_in_block)\n!echo done\nhere = !pwd"
    nb.cells.insert(3, code("%matplotlib inline\n%load_ext autoreload\n%autoreload 2"))


def a_picture(nb):
    picture = "from IPython.display import HTML, display\nimport plotly.graph_objects as go\n"
    nb.cells.insert(at(nb, "part-03-4"), code(picture + "display(HTML('<b>x</b>'))\ngo.Figure(go.Bar(y=[1, 2]))"))


def the_last_result(nb):
    i = at(nb, "part-03-4")
    nb.cells[i:i] = [code("[None, None, 5, None, None, None, 10]"), code("mine = _")]
    learner_cell(nb, "03.4").source = "# part 03.4\nimport asyncio\nawait asyncio.sleep(0)\nnew_blocks = mine"


def own_test_that_fails(nb):
    nb.cells.insert(at(nb, "check-03-1"), code("assert BlockTable(4).locate(0) == (0, 0), 'no block yet'"))
    nb.cells.insert(at(nb, "check-03-4"), code("this is no Python"))


def seed_cell_edited(nb):
    cell(nb, "03-puzzle").source = "SEED  = 47  # as it was\nseen = puzzle(SEED)\nseen"


def ours_deleted(nb):
    nb.cells = [one for one in nb.cells if one.metadata.get("nbgrader", {}).get("solution")]


def upside_down(nb):
    nb.cells.reverse()


def lines_above_the_parts_name(nb):
    learner_cell(nb, "03.2").source = "# -*- coding: utf-8 -*-\n# Ada, 3 May\n\n" + learner_cell(nb, "03.2").source


def part_spelled_otherwise_and_tabs(nb):
    part = learner_cell(nb, "03.1")
    part.source = part.source.replace("# part 03.1", "\n#Part  03.1: my table").replace("    ", "\t")


def answer_in_a_file(nb):
    i = at(nb, "part-03-2")
    nb.cells.insert(i, code("%%writefile mine.py\n" + nb.cells[i].source.removeprefix("# part 03.2\n")))
    nb.cells[i + 1].source = "# part 03.2\nimport sys\nsys.path.insert(0, '')\nfrom mine import slot_mapping"


def two_parts_in_one_cell(nb):
    last = nb.cells.pop(at(nb, "part-03-4"))
    cell(nb, "part-03-3").source += f"\n\n{last.source}"


def captured_and_wrapped(nb):
    part = learner_cell(nb, "03.2")
    part.source = f"%%capture seen\nfrom functools import wraps\n{part.source}\n\ndef loud(f):\n    @wraps(f)\n"
    part.source += "    def g(*a, **k):\n        print(a)\n        return f(*a, **k)\n    return g\n\n"
    part.source += "slot_mapping = loud(slot_mapping)"


def a_data_class(nb):
    learner_cell(nb, "03.1").source = """# part 03.1
from __future__ import annotations
from dataclasses import dataclass, field

@dataclass(slots=True)
class BlockTable:
    block_size: int
    block_ids: list[int] = field(default_factory=list)

    def append(self, block_ids): self.block_ids += block_ids
    def __len__(self): return len(self.block_ids)

    def locate(self, position):
        match divmod(position, self.block_size):
            case (logical, offset) if 0 <= logical < len(self.block_ids):
                return self.block_ids[logical], offset
        raise IndexError(position)
"""


def asynchronous_answer(nb):
    learner_cell(nb, "03.3").source = "# part 03.3\nasync def ask():\n    return [6, 4, 3], [4, 4, 2]\n\n"
    learner_cell(nb, "03.3").source += "table_after_prefill, tokens_in_block = await ask()"


LAYOUTS = [  # what lies in one row is done to one notebook, from left to right
    [helper_in_the_set_up_cell, text_between, answer_in_pieces, magics, metadata_lost],
    [import_in_the_cell_of_the_run, old_attempt_with_its_check_above, a_picture, own_test_that_fails],
    [helper_in_the_seed_cell, answer_moved_below_its_check, the_last_result],
    [helper_in_a_check_cell, old_attempt_above],
    [helper_that_begins_with_check, old_attempt_below, checks_in_the_answers_own_cells],
    [helper_of_two_parts, helper_changed_further_down, answer_below_and_the_stub_still_above, seed_cell_edited],
    [metadata_lost_and_checks_in_the_learners_words],
    [ours_deleted],
    [upside_down],
    [lines_above_the_parts_name, a_data_class, asynchronous_answer],
    [part_spelled_otherwise_and_tabs, answer_in_a_file, two_parts_in_one_cell],
    [captured_and_wrapped],
]


@pytest.mark.slow
@pytest.mark.notebook
@pytest.mark.parametrize("layouts", LAYOUTS, ids=lambda layouts: layouts[0].__name__)
def test_right_answers_get_all_points(layouts, submission):
    def change(nb):
        for layout in layouts:
            layout(nb)

    result = grade(submission(change=change, with_run=import_in_the_cell_of_the_run in layouts))
    assert (result.earned, result.points) == (10, 10), result.checks


@pytest.mark.parametrize("layout", [one for row in LAYOUTS for one in row], ids=lambda layout: layout.__name__)
def test_every_cell_stays_and_every_part_has_a_check_of_ours(layout, submission):
    path = submission(change=layout, with_run=True)
    reference = read_reference("03")
    checks = [one.source for one in reference if one.role == "check"]
    cells = restore(reference, read_cells(path)).cells
    assert {one.part for one in cells if one.role == "check"} == {"03.1", "03.2", "03.3", "03.4"}
    assert all(one.source in checks for one in cells if one.role == "check")
    was = [one.source.replace("# NBVAL_CHECK_OUTPUT\n", "") for one in read_cells(path)]
    stays = [one.source for one in cells[1:] if one.role != "check"]
    assert [source for source in was if source in stays] == stays
    gone = [source for source in was if source not in stays]
    assert all('check("03.' in source and "\n\n" not in source for source in gone), gone


def guesses(nb):
    """A prediction tried with every number, each with a check of its own, the right one among them."""
    learner_cell(nb, "03.4").source = "# part 03.4\nnew_blocks = [None] * 7"
    tries = [f"new_blocks = [None, None, {n}, None, None, None, 10]" for n in range(2, 9)]
    asks = [code(f"{one}\ncheck('03.4', new_blocks, seed=SEED)") for one in tries]
    nb.cells[at(nb, "check-03-4"):at(nb, "check-03-4") + 1] = asks


def checks_edited(nb):
    for i in (1, 2, 3, 4):
        cell(nb, f"check-03-{i}").source = f"# check 03.{i}\nprint('✓ all is well')"
    for part in ("03.1", "03.2"):
        learner_cell(nb, part).source = f"# part {part}\nBlockTable = slot_mapping = lambda *args, **kwargs: 7"


def check_redefined(nb):
    nb.cells.insert(3, code("def check(*args, **kwargs):\n    print('✓ 03.2 slot_mapping (3 points)')"))
    learner_cell(nb, "03.2").source = WRONG_SLOTS


@pytest.mark.slow
@pytest.mark.parametrize("layout", [guesses, checks_edited, check_redefined], ids=lambda layout: layout.__name__)
def test_a_layout_earns_nothing(layout, submission):
    earned = {"guesses": 8, "checks_edited": 4, "check_redefined": 7}[layout.__name__]
    assert grade(submission(change=layout), with_nbval=False).earned == earned
