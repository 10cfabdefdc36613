"""A class graded by real Dask processes: killed, stopped, restarted, of another version, ended by a submission."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest
from dask_processes import DaskProcesses, free_port

from pagedlab.errors import PagedlabError
from pagedlab.grading import class_table, cluster, confine, dispatch, report
from pagedlab.grading.classroom import Refused, grade_all
from pagedlab.grading.cluster import grade_on_cluster
from pagedlab.grading.command import run

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("no_running_loop")]
SEED = 47  # of the published solutions
CLASS_SIZE = 12


def wrong(first, number=0):
    """Answers that cost no second run: the first part's cell does ``first``, all four raise."""
    return {f"03.{i}": f"# part 03.{i}\n# learner {number}\n{first if i == 1 else ''}\n1 / 0" for i in (1, 2, 3, 4)}


@pytest.fixture
def small_class(submission, tmp_path):
    def build(size, first=""):
        for i in range(size):
            submission(wrong(first, i), name=f"class/learner{i:02}/03.ipynb")
        return tmp_path / "class"

    return build


@pytest.fixture
def dask(tmp_path):
    processes = DaskProcesses(tmp_path)
    yield processes
    processes.stop()


def by_learner(graded):
    return {one.learner: one.outcome for one in graded}


def tables(graded, folder):
    """What is written of a class, but for how long each grade took."""
    class_table.write(graded, folder)
    files = {str(file.relative_to(folder)): file.read_text() for file in folder.rglob("*") if file.is_file()}
    return {name: re.sub(r"graded in [\d.]+ s", "", text) for name, text in files.items()}


def descendants(pid):
    from pagedlab.grading.guard import descendants

    return set(descendants(pid))


def wait_until(true, seconds=30.0):
    end = time.monotonic() + seconds
    while not true() and time.monotonic() < end:
        time.sleep(0.1)
    return true()


def test_a_killed_worker_and_a_new_scheduler_lose_nothing_and_the_table_is_that_of_one_machine(
    small_class, submission, dask, tmp_path
):
    folder = small_class(CLASS_SIZE - 2)
    submission(name="class/right/03.ipynb")
    (folder / "broken.ipynb").write_text("{")
    (tmp_path / "class" / "shipped" / "ps1").mkdir(parents=True)
    submission(as_shipped=True, name="class/shipped/ps1/03.ipynb")
    dask.start(3)
    sentences, ends = [], []

    def ended(one, where):
        ends.append(where)
        if len(ends) == 3:
            dask.kill(dask.workers[0])
        if len(ends) == 6:
            dask.restart()

    graded = grade_on_cluster([folder], scheduler=dask.address, seed=SEED, ended=ended, say=sentences.append)
    assert len(ends) == len(graded) == CLASS_SIZE + 1 and len(set(ends) - {""}) >= 4, ends
    assert any("went away" in one for one in sentences) and sum("was lost" in one for one in sentences) <= 1, sentences
    alone = grade_all([folder], seed=SEED)
    assert report.closing_lines(graded) == report.closing_lines(alone)
    assert tables(graded, tmp_path / "a") == tables(alone, tmp_path / "b")
    assert [one.outcome.earned for one in graded if one.learner == "right"] == [10]


# A part of the worker that is started with it: it ends the worker when one of its own submissions says so over UDP, the
# one thing on the network that Landlock does not hold back.
ENDED_BY_UDP = """
import os, socket, threading
from pagedlab.grading.guard import descendants

def listen(line):
    while True:
        pid = int(line.recv(20))
        if pid in descendants(os.getpid()):
            os._exit(1)

def dask_setup(worker):
    line = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    line.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    line.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 1)
    line.bind(("127.0.0.1", int(os.environ["END_PORT"])))
    threading.Thread(target=listen, args=[line], daemon=True).start()
"""


def test_a_submission_that_ends_its_worker_three_times_is_said_and_nobody_else_is_blamed(
    small_class, submission, dask, tmp_path
):
    folder = small_class(5)
    ports = [free_port() for _ in range(5)]
    ends = f"import os, socket, time\nfor port in {ports}:\n"
    ends += "    datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
    ends += "    datagrams.sendto(str(os.getpid()).encode(), ('127.0.0.1', port))\n"
    submission(wrong(ends + "time.sleep(20)"), name="class/deadly/03.ipynb")
    (tmp_path / "ended_by_udp.py").write_text(ENDED_BY_UDP)
    dask.start()
    for port in ports:
        dask.add_worker("--preload", "ended_by_udp.py", END_PORT=str(port))
    sentences = []
    graded = by_learner(grade_on_cluster([folder], scheduler=dask.address, seed=SEED, say=sentences.append))
    assert "3 workers in turn were lost" in graded.pop("deadly").reason
    assert len(graded) == 5 and all(outcome.earned == 0 for outcome in graded.values()), graded
    assert sum(worker.poll() is not None for worker in dask.workers) == 3
    assert [one.count("deadly") for one in sentences] == [1, 1]


def test_a_worker_that_hangs_is_left_and_its_submission_is_graded_by_another(small_class, dask, monkeypatch):
    monkeypatch.setattr(cluster, "longest", lambda num_parts: 12.0)
    monkeypatch.setattr(dispatch, "SECONDS_TO_ANSWER", 60.0)
    folder = small_class(4)
    dask.start()
    at = {f"tcp://127.0.0.1:{port}": dask.add_worker("--worker-port", f"{port}") for port in (free_port(), free_port())}
    sentences, stopped = [], []

    def ended(one, where):
        if not stopped:  # it has just been given the next one, or will be
            stopped.append(where)
            at[where].send_signal(signal.SIGSTOP)

    graded = grade_on_cluster([folder], scheduler=dask.address, seed=SEED, ended=ended, say=sentences.append)
    assert [one.outcome.earned for one in graded] == [0] * 4
    assert [one for one in sentences if "gave no answer for 12 seconds" in one and stopped[0] in one], sentences


def test_a_worker_without_pagedlab_or_with_another_is_named_and_left_out(small_class, dask, tmp_path):
    (tmp_path / "blocks.py").write_text("import sys\nsys.modules['pagedlab'] = None\n")
    (tmp_path / "another.py").write_text("import pagedlab\npagedlab.__version__ = '0.0.1'\n")
    dask.start(0, "--preload", "blocks.py")  # a scheduler needs none
    dask.add_worker("--preload", "blocks.py", "--name", "bare")
    wait_for_workers(dask.address, 1)
    folder, sentences = small_class(2), []
    with pytest.raises(PagedlabError, match=r"bare.* is left out: pagedlab cannot be imported there"):
        grade_on_cluster([folder], scheduler=dask.address)
    dask.add_worker("--preload", "another.py", "--name", "old")
    dask.add_worker("--name", "good")
    wait_for_workers(dask.address, 3)
    graded = grade_on_cluster([folder], scheduler=dask.address, say=sentences.append)
    assert [one.outcome.earned for one in graded] == [0, 0]
    assert sum("(bare) is left out" in one for one in sentences) == 1
    assert [one for one in sentences if "(old) is left out: it has pagedlab 0.0.1 (" in one], sentences
    assert not [one for one in sentences if "(good)" in one]


def wait_for_workers(address, count):
    from distributed import Client

    with Client(address, set_as_default=False) as client:
        client.wait_for_workers(count, timeout=60)


@pytest.mark.skipif(confine.version() == 0, reason="this system cannot confine a program's writes")
def test_a_submission_is_confined_on_a_worker_too(small_class, submission, dask, tmp_path):
    small_class(1)
    secret = tmp_path / "class" / "learner00" / "03.ipynb"
    submission(wrong(f"open({str(secret)!r}).read()"), name="class/reads/03.ipynb")
    submission(wrong(f"open({str(tmp_path / 'made')!r}, 'w')"), name="class/writes/03.ipynb")
    dask.start(2)
    graded = by_learner(grade_on_cluster([tmp_path / "class"], scheduler=dask.address))
    assert "PermissionError" in graded["reads"].checks[0].reason
    assert "PermissionError" in graded["writes"].checks[0].reason and not (tmp_path / "made").exists()


def pagedlab(*arguments, **options):
    command = [sys.executable, "-m", "pagedlab", "grade", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def test_ctrl_c_leaves_no_process_and_the_same_command_grades_the_rest(small_class, submission, tmp_path):
    folder, out = small_class(6), tmp_path / "out"
    started = pagedlab(folder, "--workers", 2, "--out", out, start_new_session=True)
    family = set()

    def two_are_kept():
        family.update(descendants(started.pid))
        return len(list((out / "kept").glob("*.json"))) >= 2

    assert wait_until(two_are_kept, 90)
    os.killpg(started.pid, signal.SIGINT)  # as a terminal does
    _, errors = started.communicate(timeout=60)
    kept = len(list((out / "kept").glob("*.json")))
    assert started.returncode == 130 and len(family) > 2
    assert f"Stopped: {kept} of 6 notebooks are graded; the same command grades the rest." in errors
    assert "Traceback" not in errors and "Error" not in errors, errors
    assert wait_until(lambda: not any(alive(pid) for pid in family), 10)
    assert not (out / "grades.csv").exists()

    submission(wrong("", 99), name="class/learner00/03.ipynb")  # the first one: it was kept, and has changed
    again = pagedlab(folder, "--workers", 2, "--out", out, "--json", tmp_path / "x.json")
    _, errors = again.communicate(timeout=120)
    assert again.returncode == 0 and f"{kept - 1} of 6 notebooks had been graded before" in errors, errors
    assert len(json.loads((tmp_path / "x.json").read_text())) == 6
    assert len(list((out / "kept").glob("*.json"))) == 7 and (out / "grades.csv").exists()


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_a_scheduler_that_does_not_come_back_costs_only_what_was_not_graded(small_class, dask, monkeypatch):
    monkeypatch.setattr(cluster, "SECONDS_TO_COME_BACK", 2.0)
    folder, ends = small_class(4), []
    dask.start(1)

    def ended(one, where):
        ends.append(one)
        if len(ends) == 1:
            dask.kill(dask.scheduler)

    graded = grade_on_cluster([folder], scheduler=dask.address, ended=ended)
    refused = [one.outcome for one in graded if isinstance(one.outcome, Refused)]
    assert len(graded) == 4 and len(refused) == 3
    assert all("is not graded: No Dask scheduler answers at" in one.reason for one in refused)


@pytest.mark.parametrize("address, word", [
    ("tcp://nowhere:1", "Timed out"), ("tcp://127.0.0.1:1", "Timed out"), ("foo", "missing port"),
    ("tls://127.0.0.1:1", "TLS"), ("", "missing port"),
])
def test_an_address_where_nobody_answers_is_said_soon(submission, address, word):
    path, started = submission(wrong("")), time.monotonic()
    with pytest.raises(PagedlabError, match=rf"No Dask scheduler answers at '{address}' \(.*{word}.*tcp://HOST:8786"):
        run([path], scheduler=address)
    assert time.monotonic() - started < 15


def test_a_cluster_without_workers_is_given_up_in_the_end(submission, dask, monkeypatch):
    monkeypatch.setattr(dispatch, "PATIENCE", 1.0)
    dask.start()
    with pytest.raises(PagedlabError, match="no worker that could grade for 1 seconds"):
        grade_on_cluster([submission(wrong(""))], scheduler=dask.address)


def test_without_dask_one_sentence_says_what_to_install(submission, tmp_path):
    (tmp_path / "distributed.py").write_text("raise ImportError('No module named distributed')")
    done = pagedlab(submission(wrong("")), "--workers", 1, env=os.environ | {"PYTHONPATH": str(tmp_path)})
    out, errors = done.communicate(timeout=60)
    assert done.returncode == 2 and not out and errors.count("\n") == 1
    assert "pip install 'pagedlab[cluster]'" in errors


@pytest.mark.parametrize("arguments, word", [
    ({"workers": 0}, "workers is 0"), ({"workers": 1, "jobs": 1}, "give one"),
    ({"workers": 1, "scheduler": "tcp://x:1"}, "give one"),
])
def test_arguments_that_cannot_be_are_refused_at_once(submission, arguments, word):
    with pytest.raises(PagedlabError, match=word):
        run([submission(wrong(""))], **arguments)
