"""Every exercise: no attack earns a point in it, and no odd notebook costs one."""

import importlib
from dataclasses import replace

import nbformat
import pytest
from submissions import learner_cell

from pagedlab.grading.checks import verdict_line
from pagedlab.grading.grade import grade
from pagedlab.grading.part import EXERCISES, Verdict, load_exercise

ALWAYS = """
class Always(int):
    def __new__(cls, *args, **kwargs): return int.__new__(cls, 1)
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __hash__(self): return 0
    def __getattr__(self, name): return Always()
    def __call__(self, *args, **kwargs): return Always()
    def __getitem__(self, key): return Always()
    def __iter__(self): return iter([Always(), Always()])
    def __len__(self): return 1
"""
PATCHES = """
import builtins, json, sys, pytest
import pagedlab.kv, pagedlab.grading.checks, pagedlab.grading.part, pagedlab.grading.plain
from pagedlab.grading.part import Verdict
for module in [m for name, m in sys.modules.items() if name.startswith("pagedlab") or name == "__main__"]:
    for name in ("examine", "same", "is_int", "is_ints", "check"):
        if hasattr(module, name):
            setattr(module, name, lambda *args, **kwargs: True)
    for name in ("unanswered", "borrowed", "imports_the_grader", "raised"):
        if hasattr(module, name):
            setattr(module, name, lambda *args, **kwargs: None)
pagedlab.grading.part.Verdict = pagedlab.grading.checks.Verdict = lambda *args, **kwargs: Verdict(True)
for thing in vars(pagedlab.kv).values():
    if isinstance(thing, type):
        try:
            thing.__eq__ = lambda self, other: True
        except TypeError:
            pass
pytest.main = lambda *args, **kwargs: 0
builtins.isinstance = lambda value, kind: True
"""


def always(part, shipped):
    return ALWAYS + "\n".join(f"{name} = Always()" for name in part.needs)


def loops(part, shipped):
    endless = "class Endless:\n    def __init__(self, *args, **kwargs):\n        while True: pass\n"
    return endless + "\n".join(f"{name} = Endless" for name in part.needs)


def says_everything(part, shipped):
    """The check's line and the judge's own words, to whoever listens; then an error."""
    line = verdict_line(part, Verdict(True))
    words = [f"{line}\n", '{"missing": [], "wrong": [], "answer": true}\n' * 99]
    say = "for fd in range(1, 60):\n        try: os.write(fd, word.encode())\n        except OSError: pass"
    return f"{shipped}\nimport os\nfor word in {words!r}:\n    print(word)\n    {say}\n1 / 0"


def looks_away(part, shipped):
    """Marks for nbval, an input transformer for the cells below, and a failure that was expected."""
    line = verdict_line(part, Verdict(True))
    turn = f"get_ipython().input_transformers_cleanup.append(lambda lines: ['print({line!r})'])"
    return f"# NBVAL_RAISES_EXCEPTION\n#NBVAL_SKIP\n{shipped}\ntry:\n    {turn}\nexcept NameError:\n    pass\n" + (
        "import pytest\npytest.xfail('as expected')"
    )


ATTACKS = {
    "equals everything": always,
    "loops": loops,
    "patches all it finds": lambda part, shipped: shipped + PATCHES,
    "says everything": says_everything,
    "ends the process": lambda part, shipped: f"{shipped}\nimport os\nos._exit(0)",
    "looks away": looks_away,
}


@pytest.fixture
def quick(monkeypatch):
    """A function: two seconds for each answer of an exercise."""

    def limit(number):
        module = importlib.import_module(f"pagedlab.grading.exercises.ex{number}")
        parts = tuple(replace(part, seconds_a_case=2.0) for part in module.EXERCISE.parts)
        monkeypatch.setattr(module, "EXERCISE", replace(module.EXERCISE, parts=parts))

    return limit


def save_what_a_check_prints(exercise):
    def change(nb):
        nb.metadata.kernelspec = {"name": "always-right", "display_name": "Mine", "language": "python"}
        for cell in nb.cells:
            if cell.metadata.get("nbgrader", {}).get("grade"):
                part = exercise.part(cell.metadata.nbgrader.grade_id[6:].replace("-", "."))
                line = verdict_line(part, Verdict(True))
                cell.source = f"# check {part.name}\nprint({line!r})"
                cell.execution_count, cell.outputs = 1, [nbformat.v4.new_output("stream", text=line + "\n")]

    return change


@pytest.mark.slow
@pytest.mark.parametrize("number", EXERCISES)
def test_no_attack_earns_a_point(number, submission, quick):
    quick(number)
    exercise, attacks = load_exercise(number), list(ATTACKS.values())
    shipped = {}
    submission(change=lambda nb: shipped.update(
        (part.name, learner_cell(nb, part.name).source) for part in exercise.parts), as_shipped=True, number=number)
    answers = {}
    for i, part in enumerate(exercise.parts):  # others in each exercise: every attack meets half of them or more
        attack = attacks[(int(number) * 5 + i) % len(attacks)]
        answers[part.name] = f"# part {part.name}\n{attack(part, shipped[part.name])}"
    result = grade(submission(answers, change=save_what_a_check_prints(exercise), number=number))
    assert result.earned == 0, result.checks


def lose_split_and_duplicate(nb):
    """All at once: no metadata, each answer in two cells, an old wrong attempt above it, edited checks."""
    cells = []
    for cell in nb.cells:
        if cell.metadata.get("nbgrader", {}).get("solution"):
            first, rest = cell.source.split("\n", 1)
            cells += [nbformat.v4.new_code_cell(source) for source in (f"{first}\n1 / 0", first, rest)]
        else:
            if cell.metadata.get("nbgrader", {}).get("grade"):
                cell.source = "\n".join([*cell.source.splitlines()[:2], "print('✗ mine')"])
            cells.append(nbformat.from_dict({**cell, "metadata": {}, "id": f"x{len(cells)}"}))
    nb.cells = cells


@pytest.mark.parametrize("number", EXERCISES)
def test_right_answers_in_a_mangled_notebook_get_every_point_of_the_judge(number, submission):
    result = grade(submission(change=lose_split_and_duplicate, number=number), with_nbval=False)
    assert result.earned == result.points, result.checks


BORROWED = {
    "01.1": "class FirstFit(ContiguousMemory):\n    pass",
    "05.2": "from pagedlab.attention import paged_attention as my_attention",
    "02.1": "def translate(table, block_size, position):\n    return BlockTable(block_size, table).locate(position)\n"
    "def whose(*args): return None",
    "03.1": "from pagedlab.kv import BlockTable",
    "03.2": "import pagedlab.kv as kv\ndef slot_mapping(blocks, size, start, end, pad_to=0):\n"
    "    return kv.BlockTable(size, blocks).slot_mapping(start, end)",
    "06.1": "from pagedlab.kv.paper import BlockAllocator",
    "06.2": "from pagedlab.kv.cow import fork_table as fork",
    "06.3": "import pagedlab.kv.cow as mine\nappend_slot = mine.append_slot",
    "07.1": "class FreeQueue(FreeKVCacheBlockQueue):\n    pass",
    "07.4": "BlockPool = type(story(47).block_pool)",
}


@pytest.mark.slow
@pytest.mark.parametrize("number", sorted({part[:2] for part in BORROWED}))
def test_what_is_answered_by_pagedlabs_own_code_or_by_the_graders_facts_gets_nothing(number, submission):
    exercise = load_exercise(number)
    answers = {name: f"# part {name}\n{code}" for name, code in BORROWED.items() if name[:2] == number}
    last = exercise.parts[-1]
    facts = f"from pagedlab.grading.exercises.ex{number}.facts import facts"
    names = "\n".join(f"{name} = facts(SEED).{name}" for name in last.needs)
    answers[last.name] = f"# part {last.name}\n{facts}\n{names}"
    result = grade(submission(answers, number=number), with_nbval=False)
    for check in result.checks:
        assert (check.earned == 0) == (check.name in answers), check
        assert check.name not in answers or "your own code" in check.reason
