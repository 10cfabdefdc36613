"""The guard sees all that a program starts, ends it all, and says why."""

import subprocess
import sys
import time

import pytest

from pagedlab.grading import contain
from pagedlab.grading.contain import Contained, Limits


def run(code, tmp_path, **limits):
    command = [sys.executable, "-c", code]
    limits = Limits(**{"seconds": 20, "memory_bytes": 1 << 30} | limits)
    with Contained(command, cwd=tmp_path, log=tmp_path / "log", limits=limits) as process:
        return process.wait()


def test_a_programs_own_end_is_reported_and_its_output_is_in_the_log(tmp_path):
    ending = run("print('hello'); raise SystemExit(3)", tmp_path)
    assert (ending.exit_code, ending.reason, str(ending)) == (3, "", "it ended with exit status 3")
    assert (tmp_path / "log").read_text() == "hello\n"


FORKS = "import os, time\nfor _ in range(9):\n    if not os.fork(): time.sleep(60)\ntime.sleep(60)"
PASSED_LIMITS = [
    ("time", "while True: pass", {"seconds": 0.5}),
    ("memory", "hoard = b'x' * (512 << 20)\nwhile True: pass", {"memory_bytes": 256 << 20}),
    ("processes", FORKS, {"processes": 5}),
]


@pytest.mark.parametrize("reason, code, limits", PASSED_LIMITS, ids=[limit[0] for limit in PASSED_LIMITS])
def test_a_limit_that_is_passed_ends_it(reason, code, limits, tmp_path):
    assert run(code, tmp_path, **limits).reason == reason


def test_a_program_is_stopped_when_the_grader_wants_no_more_of_it(tmp_path):
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    with Contained(command, cwd=tmp_path, log=tmp_path / "log", limits=Limits(seconds=60)) as process:
        started = time.monotonic()
        assert process.stop().reason == "stopped"
    assert time.monotonic() - started < 5


def test_processes_are_seen_with_and_without_proc(monkeypatch):
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        time.sleep(0.2)
        parent, memory = contain._processes()[child.pid]
        monkeypatch.setattr(contain.os.path, "isdir", lambda path: False)
        same_parent, about_the_same = contain._processes()[child.pid]
    finally:
        child.kill()
        child.wait()
    assert parent == same_parent == contain.os.getpid()
    assert 0.5 < memory / about_the_same < 2
