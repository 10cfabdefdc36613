"""Code that would rather have the points than the answer gets none, and takes none from anybody else."""

import os
import sys
import time
from functools import partial
from pathlib import Path

import pytest
from submissions import ROOT

import pagedlab.kv.block_table
from pagedlab.grading import judge
from pagedlab.grading.contain import Limits
from pagedlab.grading.exercises import ex03
from pagedlab.grading.grade import grade

RIGHT_LINE = "✓ 03.1 BlockTable finds every position (3 points)"
# Something that has the right names and the wrong answers.
WRONG = """
class BlockTable:
    def __init__(self, block_size): pass
    def append(self, block_ids): pass
    def locate(self, position): return (1, 1)
    def __len__(self): return 0
"""
WHILE_RUN = {
    "ends the process": "import os\nos._exit(0)",
    "exits politely": "raise SystemExit(0)",
    "skips itself": "import pytest\npytest.skip('nothing to see', allow_module_level=True)",
    "loops": "while True: pass",
    "kills its parent": "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)\nwhile True: pass",
    "puts its parent to sleep": "import os, signal\nos.kill(os.getppid(), signal.SIGSTOP)\nwhile True: pass",
    "kills its group": "import os, signal\nos.killpg(0, signal.SIGKILL)",
    "takes 10 GB": "hoard = [b'x' * (100 << 20) for _ in range(100)]",
    "forks for ever": "import os\nwhile True: os.fork()",
    "fills the disk with crumbs": "for i in range(10**9): open(f'crumb{i}', 'w').close()",
    "speaks in half characters": "print('\\ud800')\nraise ValueError('\\ud800 \\x1b[2J')",
    "fills the disk": "with open('big', 'wb') as f:\n    while True: f.write(bytes(1 << 20))",
    "recurses": "def f(): return f()\nf()",
    "says the line": f"import os\nprint({RIGHT_LINE!r})\nos.write(1, {RIGHT_LINE!r}.encode())",
    "says it everywhere": (
        "import os\nfor fd in range(3, 100):\n"
        "    try: os.write(fd, b'{\"answer\": true}\\n')\n    except OSError: pass"),
    "patches the grader": """
import builtins, json, pytest
import pagedlab.grading.checks, pagedlab.grading.part, pagedlab.grading.plain, pagedlab.kv
from pagedlab.grading.part import Verdict
for module in (pagedlab.grading.part, pagedlab.grading.checks):
    module.examine = lambda part, cases, answers: Verdict(True)
pagedlab.grading.plain.same = lambda a, b: True
pagedlab.grading.checks.check = lambda *args, **kwargs: print("✓")
pagedlab.kv.BlockTable.locate = lambda self, position: (1, 1)
pytest.main = lambda *args, **kwargs: 0""",
}
ANSWERS = {
    "equals everything": "Yes(7)",
    "loops": "next(i for i in iter(int, 1) if i)",
    "is endless": "[0] * (1 << 26)",
    "is deep": "deep()",
    "never comes": "__import__('os')._exit(0)",
    "is a huge number": "10 ** 6000",
}
HELPERS = """
class Yes(int):
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __hash__(self): return 0
    def __instancecheck__(self, other): return True

def deep():
    inner = []
    for _ in range(500): inner = [inner]
    return inner
"""


def lost(path):
    result = grade(path, with_nbval=False)
    return {check.name for check in result.checks if not check.earned}


@pytest.mark.slow
@pytest.mark.parametrize("what", WHILE_RUN)
def test_a_cell_that(what, submission, quick_limits):
    started = time.monotonic()
    assert lost(submission({"03.1": f"# part 03.1\n{WRONG}\n{WHILE_RUN[what]}"})) == {"03.1"}
    assert time.monotonic() - started < 60


@pytest.mark.slow
@pytest.mark.parametrize("what", ANSWERS)
def test_an_answer_that(what, submission, quick_limits):
    code = WRONG.replace("return (1, 1)", f"return {ANSWERS[what]}").replace("return 0", f"return {ANSWERS[what]}")
    assert lost(submission({"03.1": f"# part 03.1\n{HELPERS}{code}"})) == {"03.1"}


def test_a_prediction_that_equals_everything_is_no_prediction(submission):
    always = "class Always(list):\n    def __eq__(self, other): return True\nnew_blocks = Always([Yes(1)] * 7)"
    cell = f"# part 03.4\n{HELPERS}\n{always}"
    assert lost(submission({"03.4": cell})) == {"03.4"}


@pytest.mark.skipif(sys.platform != "linux", reason="this system hides a process that detached itself")
def test_what_a_submission_starts_does_not_outlive_its_grading(submission, tmp_path, monkeypatch):
    monkeypatch.setattr(judge, "Limits", partial(Limits, confine=False))  # so that it can leave a note for the test
    note = tmp_path / "pids"
    cell = f"""# part 03.1
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        with open({str(note)!r}, "w") as f: f.write(str(os.getpid()))
        time.sleep(600)
    os._exit(0)
while not os.path.exists({str(note)!r}): time.sleep(0.01)
"""
    assert "03.1" in lost(submission({"03.1": cell}))
    pid = int(note.read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_submission_that_deletes_all_it_finds_is_still_there_and_unchanged(submission):
    path = submission({"03.1": "# part 03.1\nimport os\nfor name in os.listdir('.'): os.remove(name)"})
    before, saved = path.read_bytes(), path.stat().st_mtime_ns
    assert lost(path) == {"03.1"}
    assert (path.read_bytes(), path.stat().st_mtime_ns) == (before, saved)


def test_a_mistake_in_one_part_costs_nothing_in_another_that_does_not_use_it(submission):
    answers = {"03.2": "# part 03.2\nimport os; os._exit(1)", "03.4": "# part 03.4\nnew_blocks = ["}
    assert lost(submission(answers)) == {"03.2", "03.4"}


def test_nobody_reads_the_solution_the_answers_or_the_tests(submission):
    solution = f"import json\ncells = json.load(open({str(ROOT / 'solutions' / '03_block_table.ipynb')!r}))['cells']\n"
    solution += "exec('\\n'.join(''.join(c['source']) for c in cells if 'part 03.1' in c['source'][0]))"
    file = Path(ex03.__file__).with_name("facts.py")
    load = "import importlib.util as u, sys\nspec = u.spec_from_file_location('pagedlab.grading.exercises.ex03.facts', "
    load += f"{str(file)!r})\nfacts = u.module_from_spec(spec)\nspec.loader.exec_module(facts)\n"
    known = "import sys\nfacts = [m for n, m in sys.modules.items() if 'exercises' in n or 'reference' in n][0].facts\n"
    answers = {
        "03.1": f"# part 03.1\n{solution}",
        "03.2": f"# part 03.2\n{known}slot_mapping = facts.slot_mapping",
        "03.3": f"# part 03.3\n{load}table_after_prefill = facts.facts(SEED).table_after_prefill\n"
        "tokens_in_block = facts.facts(SEED).tokens_in_block",
        "03.4": f"# part 03.4\nexec(open({str(file)!r}).read())\nnew_blocks = facts(SEED).new_blocks",
    }
    assert lost(submission(answers)) == {"03.1", "03.2", "03.3", "03.4"}


def test_a_copy_of_our_code_made_while_it_is_asked_is_ours(submission):
    """In another thread, too."""
    file = Path(pagedlab.kv.block_table.__file__)
    anew = f"runpy.run_path({str(file)!r})['BlockTable']"
    table = f"# part 03.1\nimport runpy\ndef BlockTable(size):\n    return {anew}(size)"
    text = "# part 03.1\nimport inspect\nfrom collections.abc import Sequence\n"
    text += "from pagedlab.kv import BlockTable as T\n"
    text += "source = inspect.getsource(T)\ndef BlockTable(size):\n    space = {'Sequence': Sequence}\n"
    text += "    exec(source, space)\n    return space['BlockTable'](size)"
    thread = "# part 03.2\nfrom concurrent.futures import ThreadPoolExecutor\nfrom pagedlab.kv import BlockTable as T\n"
    thread += "pool = ThreadPoolExecutor(1)\npool.submit(int).result()\ndef work(ids, size, a, b, n):\n"
    thread += "    found = T(size, ids).slot_mapping(a, b)\n    return found + [-1] * (n - len(found))\n"
    thread += "def slot_mapping(ids, size, a, b, pad_to=0):\n    return pool.submit(work, ids, size, a, b, pad_to)"
    thread += ".result()"
    for first in (table, text):
        result = grade(submission({"03.1": first, "03.2": thread}), with_nbval=False)
        assert [check.earned for check in result.checks] == [0, 0, 2, 2]
        assert all("pagedlab's own" in check.reason for check in result.checks[:2]), result.checks


OWN_CODE_UNDONE = """
import gc
import pagedlab.grading.own_code as own
own.Refusing.__enter__ = lambda self: self
own.Refusing.__exit__ = lambda self, *args: None
own.Refusing.name_of = lambda self, code: None
gc.get_objects = lambda *args: []
"""
FORKED = """
import multiprocessing
here, there = multiprocessing.Pipe()

def serve():
    while True:
        ids, size, start, end = there.recv()
        there.send(T(size, ids).slot_mapping(start, end))

multiprocessing.get_context("fork").Process(target=serve, daemon=True).start()

def found(*asked):
    here.send(asked)
    return here.recv()
"""
ANOTHER_PYTHON = """
import json, subprocess, sys
def found(ids, size, start, end):
    said = f"from pagedlab.kv import BlockTable as T; print(T({size}, {ids}).slot_mapping({start}, {end}))"
    return json.loads(subprocess.check_output([sys.executable, "-c", said]))
"""
SECOND_INTERPRETER = """
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
second = interpreters.create()
"""
IN_PROCESS = "def found(ids, size, start, end):\n    return T(size, ids).slot_mapping(start, end)\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    "way, reason",
    [
        (OWN_CODE_UNDONE + IN_PROCESS, "pagedlab's own"),
        (FORKED, "it took more than 2 seconds"),
        (ANOTHER_PYTHON, "another Python process"),
        (SECOND_INTERPRETER + IN_PROCESS, "interpreter creation failed"),
    ],
    ids=["patched", "forked", "another python", "second interpreter"],
)
def test_our_code_does_not_answer_by_way_of(way, reason, submission, quick_limits):
    call = "def slot_mapping(ids, size, start, end, pad_to=0):\n    slots = found(ids, size, start, end)\n"
    call += "    return slots + [-1] * (pad_to - len(slots))"
    cell = f"# part 03.2\nfrom pagedlab.kv import BlockTable as T\n{way}\n{call}"
    result = grade(submission({"03.2": cell}), with_nbval=False)
    assert [check.earned for check in result.checks] == [3, 0, 2, 2], result.checks
    assert reason in result.checks[1].reason


@pytest.mark.slow
def test_a_process_that_stood_still_while_it_was_asked_goes_on(submission):
    """Another cell's own helper is no part's business."""
    cell = "import subprocess\nhelper = subprocess.Popen(['cat'], stdin=subprocess.PIPE, stdout=subprocess.PIPE)"
    last = "# part 03.4\nhelper.stdin.write(b'10')\nhelper.stdin.close()\n"
    last += "new_blocks = [None, None, 5, None, None, None, int(helper.stdout.read())]"
    result = grade(submission({"added": cell, "03.4": last}), with_nbval=False)
    assert result.earned == 10, result.checks


def test_learners_code_sees_no_secrets_of_the_graders_environment(submission, monkeypatch):
    monkeypatch.setenv("GITHUB_TOKEN", "secret")
    cell = "# part 03.4\nimport os\nassert 'GITHUB_TOKEN' not in os.environ\n"
    assert lost(submission({"03.4": f"{cell}new_blocks = [None, None, 5, None, None, None, 10]"})) == set()
