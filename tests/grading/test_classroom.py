"""A class: nobody harms anybody, everything is written down, and what is written can be read."""

import csv
import json
import os
import re
import time
import unicodedata
from functools import partial
from xml.etree import ElementTree

import pytest
from submissions import ROOT

from pagedlab.errors import PagedlabError
from pagedlab.grading import classroom, confine, judge
from pagedlab.grading.classroom import Graded, Refused, find, grade_all
from pagedlab.grading.command import run
from pagedlab.grading.contain import Limits
from pagedlab.grading.grade import CheckResult, Result, grade
from pagedlab.grading.watch import Watch

WRONG = {f"03.{i}": f"# part 03.{i}\n1 / 0" for i in (1, 2, 3, 4)}

SMALL_CLASS = 6  # submissions: a larger one goes the same way


def a_result(path, earned=(3, 0), exercise="03_block_table"):
    checks = [
        CheckResult("03.1", "finds every position", 3, earned[0], "" if earned[0] else "expected: <b>; but \x1b & no"),
        CheckResult("03.2", "slots", 3, earned[1], "" if earned[1] else "no"),
    ]
    return Result(path, exercise, "2026-01-02T03:04:05+00:00", 1.5, 47, checks, ["magics were left out"])


CLASS = [
    Graded("bea", a_result("bea/03.ipynb")),
    Graded("=cmd()", a_result("c.ipynb", (3, 3))),
    Graded("bea", a_result("bea/again.ipynb", (0, 0))),
    Graded("../dan", Refused("dan.ipynb", "dan.ipynb is not a notebook: it is no JSON.")),
]


def test_the_class_table_and_the_feedback_hold_everybody(tmp_path):
    from pagedlab.grading import class_table

    class_table.write(CLASS, tmp_path)
    head, *rows = csv.reader((tmp_path / "grades.csv").open())
    assert head == ["learner", "03_block_table", *(f"03.{i}" for i in (1, 2, 3, 4)), "total", "of", "last saved",
                    "not graded"]
    assert all(len(row) == len(head) for row in rows)
    assert {row[0]: (row[1], row[2], row[-4]) for row in rows} == {
        "bea": ("3", "3", "3"), "bea (bea/again.ipynb)": ("0", "0", "0"), "'=cmd()": ("6", "3", "6"),
        "../dan": ("", "", "0"),
    }
    assert "no JSON" in rows[0][-1]
    page = (tmp_path / "grades.html").read_text()
    links = re.findall(r'href="(.*?)"', page)
    assert len(links) == 4 and all((tmp_path / link).is_file() for link in links)
    feedback = {file.name: file.read_text() for file in (tmp_path / "feedback").iterdir()}
    assert len(feedback) == 4
    assert "&lt;b&gt;; but" in feedback["bea_bea_again.ipynb.html"] and "3 of 6 points" in feedback["bea.html"]
    assert "no JSON" in feedback["dan.html"] and "2026-01-02" in feedback["bea.html"]


def test_junit_says_of_each_check_whether_it_failed_and_why(tmp_path):
    from pagedlab.grading.report import as_junit

    suites = ElementTree.fromstring(as_junit(CLASS).encode())
    assert [suite.attrib["tests"] for suite in suites] == ["2", "2", "2", "1"]
    assert [len(suite.findall("testcase/failure")) for suite in suites] == [1, 0, 2, 0]
    assert "no JSON" in suites[3].find("testcase/error").attrib["message"]


def test_whose_a_notebook_is_follows_from_where_it_lies(tmp_path):
    for file in ("alice/ps1/03_block_table.ipynb", "bob/exercises/03_block_table.ipynb", "carol_03_block_table.ipynb",
                 "dan.ipynb", "eve/.ipynb_checkpoints/03-checkpoint.ipynb", ".git/x.ipynb", "eve/notes.txt"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()
    assert [learner for learner, _ in find(tmp_path)] == ["alice", "bob", "carol", "dan"]
    assert {learner for learner, _ in find(ROOT / "exercises")} == {"exercises"}
    assert find(tmp_path / "bob" / "exercises" / "03_block_table.ipynb")[0][0] == "exercises"
    (one,) = find(tmp_path / "eve")
    assert isinstance(one[1], Refused)


def test_links_in_a_class_are_nobodys_work(submission, tmp_path, capsys):
    folder = tmp_path / "class"
    submission(WRONG, name="class/ann/03.ipynb")
    targets = {"bob": ROOT / "solutions" / "03_block_table.ipynb", "eve": folder / "ann" / "03.ipynb", "ida": "nowhere",
               "joe": "03.ipynb", "kim": "/etc/hostname"}
    for name, target in targets.items():
        (folder / name).mkdir()
        (folder / name / "03.ipynb").symlink_to(target)
    (folder / "zoe").symlink_to(folder / "ann")
    (folder / "ann" / "up").symlink_to(folder)
    out = tmp_path / "out"
    assert run([folder], out=out) == 2
    assert capsys.readouterr().err.count("is a symbolic link") == 7
    rows = {row["learner"]: row for row in csv.DictReader((out / "grades.csv").open())}
    assert rows.keys() == {"ann", *targets, "zoe"} and {row["total"] for row in rows.values()} == {"0"}


ODD_NAMES = ["\x1b[31mred", "two\nlines", "\ud800half", "back\u202ewards", "no\uffffcharacter", "para\u2029graph"]


def test_nothing_that_steers_a_terminal_or_a_table_gets_out(submission, tmp_path, capfdbinary):
    for i, name in enumerate(ODD_NAMES):
        path = os.fsencode(tmp_path / "class" / f"{i}") + name.encode("utf-8", "surrogatepass")
        os.makedirs(path)
        with open(os.path.join(path, b"03.ipynb"), "wb") as file:
            file.write(b"{")
    answers = WRONG | {"03.2": "# part 03.2\nslot_mapping = lambda *a, **k: '\\x1b[2J\\ud800\\u202e'",
                       "03.4": "# part 03.4\nraise ValueError('\\x1b]0;mine\\x07 \\ud800')"}
    submission(answers, name="class/7/03.ipynb")
    text = json.dumps(json.loads((tmp_path / "class/7/03.ipynb").read_text()) | {"metadata": {"\ud800": "\ud800"}})
    (tmp_path / "class/7/03.ipynb").write_text(text.replace("# part 03.1", "# part 03.1 \\ud800"))
    files = {name: tmp_path / name for name in ("x.json", "x.xml")}
    assert run([tmp_path / "class"], out=tmp_path / "out", json_path=files["x.json"], junit_path=files["x.xml"]) == 2
    printed = capfdbinary.readouterr()
    written = [file.read_bytes() for file in (tmp_path / "out").rglob("*") if file.is_file()]
    for data in (printed.out, printed.err, *written, *(file.read_bytes() for file in files.values())):
        text = data.decode()
        assert not [char for char in text if char != "\n" and unicodedata.category(char) in ("Cc", "Cs", "Zp")]
        assert not [char for char in text if char in "\u202e\uffff"]
    assert len(ElementTree.parse(files["x.xml"]).getroot()) == len(json.loads(files["x.json"].read_text())) == 7


def test_a_mistake_of_the_grader_itself_stops_nobody_elses_grade(submission, monkeypatch):
    path, other = submission(WRONG, name="a.ipynb"), submission(WRONG, name="b.ipynb")

    def broken(submission, **kwargs):
        if submission.path == path:
            raise OSError("no space left")
        return grade(submission, with_nbval=False, **kwargs)

    monkeypatch.setattr(classroom, "grade", broken)
    first, second = grade_all([path, other], jobs=2)
    assert "no space left" in first.outcome.reason and second.outcome.earned == 0


def test_everything_that_was_asked_for_is_written(submission, tmp_path, capsys):
    first = submission(WRONG, name="class/ann.ipynb")
    (tmp_path / "class" / "bob.ipynb").write_text("{")
    out = tmp_path / "out"
    status = run([first.parent], out=out, junit_path=tmp_path / "x.xml", json_path=tmp_path / "x.json", seed=20)
    printed = capsys.readouterr()
    assert status == 2 and "1 of 2 notebooks graded" in printed.out and "bob.ipynb is not a notebook" in printed.err
    data = json.loads((tmp_path / "x.json").read_text())
    found = [(one["learner"], one.get("earned"), one.get("seed")) for one in data]
    assert found == [("ann", 0, 20), ("bob", None, None)]
    assert "saved 20" in printed.out and re.search(r"graded in \d", printed.out)
    assert len(ElementTree.parse(tmp_path / "x.xml").getroot()) == 2
    assert {file.name for file in (out / "feedback").iterdir()} == {"ann.html", "bob.html"}


@pytest.mark.parametrize("arguments, word", [
    ({"seed": -1}, "seed is -1"), ({"jobs": 0}, "jobs is 0"), ({"min_score": 101}, "percentage"),
    ({"json_path": "nowhere/x.json"}, "nowhere"), ({"junit_path": "nowhere/x.xml"}, "nowhere"),
])
def test_what_cannot_be_is_said_before_anything_is_graded(arguments, word, submission):
    started = time.monotonic()
    with pytest.raises(PagedlabError, match=word):
        run([submission()], **arguments)
    assert time.monotonic() - started < 2


# ------------------------------------------------------- where the system does not confine writes (macOS, old Linux)


@pytest.fixture
def not_confined(monkeypatch):
    monkeypatch.setattr(confine, "version", lambda: 0)
    monkeypatch.setattr(judge, "Limits", partial(Limits, confine=False))


def test_a_submission_that_changes_anothers_file_gets_no_grade_and_the_other_gets_its_own(
    not_confined, submission, monkeypatch
):
    monkeypatch.setattr(classroom, "grade", partial(grade, with_nbval=False))
    assert "no Landlock" in confine.not_held_back()
    victim = submission(name="victim.ipynb")
    attacker = submission({"03.1": f"# part 03.1\nopen({str(victim)!r}, 'w').close()"}, name="attacker.ipynb")
    first, second = grade_all([attacker, victim], jobs=1)
    assert "victim.ipynb was changed" in first.outcome.reason
    assert second.outcome.earned == 10


def test_after_a_change_to_pagedlab_itself_nothing_more_is_graded(not_confined, submission, tmp_path):
    ours = tmp_path / "of_pagedlab.py"
    ours.write_text("right = True")
    watch = Watch([], package=[ours])
    with pytest.raises(PagedlabError, match="of_pagedlab.py was changed"):
        grade(submission({"03.1": f"# part 03.1\nopen({str(ours)!r}, 'w').close()"}), with_nbval=False, watch=watch)
    with pytest.raises(PagedlabError, match="Install pagedlab anew"):
        grade(submission(WRONG), with_nbval=False, watch=watch)


def test_what_is_watched_is_pagedlab_and_its_kernels():
    from pagedlab.grading.watch import package_files

    names = {file.name for file in package_files()}
    assert {"judge.py", "block_pool.py", "03_block_table.ipynb"} <= names
    assert {file.name for file in (ROOT / "kernels").glob("*.py")} <= names


# ------------------------------------------------------------------------------------------------- whole classes


@pytest.mark.slow
@pytest.mark.notebook
def test_a_submission_that_runs_wild_harms_nobody_else(submission, quick_limits, tmp_path):
    folder = tmp_path / "class"
    everything = f"import os\nfor d, _, names in os.walk({str(folder)!r}):\n    for n in names:\n"
    everything += "        try: os.remove(os.path.join(d, n))\n        except OSError: pass"
    kills = "import os, signal\nfor pid in range(2, 100_000):\n    try: os.kill(pid, signal.SIGKILL)\n"
    kills += "    except OSError: pass"
    harmless = confine.version() < 6  # without that, this one could end anything on the machine
    wild = [
        "while True: pass",
        "import os\nwhile True: os.fork()",
        "hoard = [b'x' * (100 << 20) for _ in range(100)]",
        everything,
        "with open('big', 'wb') as f:\n    while True: f.write(bytes(1 << 20))",
        "raise SystemExit" if harmless else kills,
        "import os\nos._exit(0)",
        "import subprocess, sys\nfor _ in range(9): subprocess.Popen([sys.executable, '-c', 'while True: pass'])",
    ]
    for name, four in (("a_wild", wild[:4]), ("b_wild", wild[4:])):
        answers = {f"03.{i}": f"# part 03.{i}\n{code}" for i, code in enumerate(four, start=1)}
        submission(answers, name=f"class/{name}.ipynb")
    (folder / "f_nothing.ipynb").write_bytes(bytes(range(256)))
    submission(name="class/g_right.ipynb")
    before = {file: (file.read_bytes(), file.stat().st_mtime_ns) for file in folder.iterdir()}
    graded = {one.learner: one.outcome for one in grade_all([folder], jobs=2)}
    assert {file: (file.read_bytes(), file.stat().st_mtime_ns) for file in folder.iterdir()} == before
    right, nothing = graded.pop("g_right"), graded.pop("f_nothing")
    assert right.earned == 10, right.checks
    assert "no text" in nothing.reason
    assert [result.earned for result in graded.values()] == [0, 0]


@pytest.mark.slow
@pytest.mark.notebook
def test_a_small_class_is_graded_on_two_cores_without_a_failure(submission, tmp_path, record_property):
    with_run, without = submission(with_run=True, name="a.ipynb"), submission(name="b.ipynb")
    for i in range(SMALL_CLASS):  # some have deleted the cell that runs the real model
        learner = tmp_path / "class" / f"learner{i:02}"
        learner.mkdir(parents=True)
        (learner / "03_block_table.ipynb").write_bytes((without if i % 3 else with_run).read_bytes())
    started = time.monotonic()
    graded = grade_all([tmp_path / "class"], jobs=2)
    seconds = time.monotonic() - started
    record_property("seconds", seconds)
    print(f"{SMALL_CLASS} notebooks graded in {seconds:.0f} s")
    assert len(graded) == SMALL_CLASS
    assert not [one for one in graded if isinstance(one.outcome, Refused) or one.outcome.earned != 10]

