"""The guard sees all that a program starts, ends it all, and says why."""

import os
import subprocess
import sys
import time

import pytest
from submissions import ROOT

from pagedlab.grading import confine, guard
from pagedlab.grading.contain import Contained, Limits, scratch


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
REMOVED = "import os\nopened = []\nwhile True:\n    opened.append(open('f', 'wb'))\n    os.remove('f')\n"
REMOVED += "    opened[-1].write(bytes(1 << 20))\n    opened[-1].flush()"
CLOSED = "import os, time\nos.mkdir('a')\nopen('a/b', 'w').close()\nos.chmod('a', 0)\ntime.sleep(60)"
PASSED_LIMITS = [
    ("disk", "for i in range(10**9): open(str(i), 'w').close()", {"files": 500}),
    ("disk", "for i in range(10**9): open(str(i), 'wb').write(bytes(1 << 20))", {"disk_bytes": 64 << 20}),
    ("disk", REMOVED, {"disk_bytes": 64 << 20}),
    ("disk", "import os\nwhile True:\n    os.mkdir('a')\n    os.chdir('a')", {}),
    ("time", "while True: pass", {"seconds": 0.5}),
    ("memory", "hoard = b'x' * (512 << 20)\nwhile True: pass", {"memory_bytes": 256 << 20}),
    ("processes", FORKS, {"processes": 5}),
]


@pytest.mark.parametrize("reason, code, limits", PASSED_LIMITS)
def test_a_limit_that_is_passed_ends_it(reason, code, limits):
    with scratch("pagedlab-test-") as folder:
        assert run(code, folder, **limits).reason == reason


def test_a_folder_is_removed_whatever_is_in_it():
    with scratch("pagedlab-test-") as folder:
        run(f"{CLOSED.split('time.sleep')[0]}\nwhile True:\n    os.mkdir('b')\n    os.chdir('b')", folder, seconds=2)
        assert (folder / "b" / "b" / "b").is_dir()
    assert not folder.exists()


no_landlock = pytest.mark.skipif(confine.version() == 0, reason="this system cannot confine a program's writes")
OUTSIDE = {
    "writes": "open(outside, 'w')",
    "appends": "open(outside, 'a').write('x')",
    "cuts off": "os.truncate(outside, 0)",
    "deletes": "os.remove(outside)",
    "renames": "os.rename(outside, outside + '2')",
    "puts its own there": "open('mine', 'w').close(); os.replace('mine', outside)",
    "makes a folder": "os.mkdir(outside + '2')",
    "links": "os.symlink('/', outside + '2')",
    "kills": "os.kill(bystander, signal.SIGKILL)",
    "reads": "open(outside).read()",
    "reads by another name": "os.symlink(outside, 'link'); open('link').read()",
    "looks around": "os.listdir(os.path.dirname(outside))",
    "reads the grader's environment": "open(f'/proc/{grader}/environ').read()",
    "reads its guard's environment": "open(f'/proc/{os.getppid()}/environ').read()",
    "leaves memory behind": "open('/dev/shm/pagedlab-left-behind', 'w')",
    "listens": "socket.socket().bind(('127.0.0.1', 0))",
    "calls": "socket.socket().connect(('127.0.0.1', 9))",
}


@no_landlock
@pytest.mark.parametrize("what", OUTSIDE)
def test_a_program_that_does_so_outside_of_its_folder_is_refused(what, tmp_path):
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    bystander = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    outside.write_text(str(bystander.pid))
    try:
        known = f"outside, bystander, grader = {str(outside)!r}, {bystander.pid}, {os.getpid()}"
        act = f"import os, signal, socket\n{known}\nopen('note', 'w').close()\n{OUTSIDE[what]}"
        ending = run(act, inside)
        assert ending.exit_code == 1 and "PermissionError" in (inside / "log").read_text()
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()
    assert outside.read_text() == str(bystander.pid) and {*tmp_path.iterdir()} == {inside, outside}


@no_landlock
def test_what_a_confined_program_starts_is_confined_too(tmp_path):
    (tmp_path / "inside").mkdir()
    run("import subprocess, sys; subprocess.run(['touch', '../new'])", tmp_path / "inside")
    assert [path.name for path in tmp_path.iterdir()] == ["inside"]


@no_landlock
@pytest.mark.parametrize("place", ["solutions/03_block_table.ipynb", "tests/grading/test_contain.py", ".git/HEAD"])
def test_what_lies_beside_the_package_stays_unread_where_its_folder_is_on_the_path(place, tmp_path, monkeypatch):
    if not (ROOT / place).is_file():
        pytest.skip("not a clone")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    act = f"print(len(open({str(ROOT / 'README.md')!r}).read()) > 99)\nopen({str(ROOT / place)!r})"
    assert run(act, tmp_path).exit_code == 1
    log = (tmp_path / "log").read_text()
    assert "True\n" in log and "PermissionError" in log


def test_where_a_system_cannot_confine_programs_run_all_the_same(tmp_path):
    (tmp_path / "inside").mkdir()
    assert run("open('../new', 'w').close()", tmp_path / "inside", confine=False).exit_code == 0


@pytest.mark.parametrize("signal", ["SIGKILL", "SIGSTOP"])
def test_a_program_that_may_signal_its_guard_ends_its_own_run_and_no_more(signal, tmp_path):
    act = f"import os, signal\nos.kill(os.getppid(), signal.{signal})\nwhile True: pass"
    command = [sys.executable, "-c", act]
    limits = Limits(seconds=1, confine=False)
    with Contained(command, cwd=tmp_path, log=tmp_path / "log", limits=limits) as process:
        process._deadline = time.monotonic() + 3
        ending = process.stop() if signal == "SIGSTOP" else process.wait()
    assert ending.exit_code is None or ending.reason
    time.sleep(0.2)  # the operating system's turn
    assert process._pid not in guard._processes()


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
        parent, memory = guard._processes()[child.pid]
        monkeypatch.setattr(guard.os.path, "isdir", lambda path: False)
        same_parent, about_the_same = guard._processes()[child.pid]
    finally:
        child.kill()
        child.wait()
    assert parent == same_parent == guard.os.getpid()
    assert 0.5 < memory / about_the_same < 2
