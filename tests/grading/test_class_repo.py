"""The repository for a class: no solutions, its own seed, and what its workflow runs runs here."""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile

import nbformat
import pytest
import yaml
from submissions import ROOT

from pagedlab.grading.part import EXERCISES

pytestmark = pytest.mark.slow
SEED = 4711


@pytest.fixture(scope="module")
def repo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("class") / "repo"
    command = ["make", "--no-print-directory", "class-repo", f"DIR={folder}", "CLASS_ARGS=--seed 4711 --url https://x.org/a"]
    if not (ROOT / ".venv").exists():  # tests that run with another Python
        command = [sys.executable, "tools/class_repo.py", str(folder), "--seed", "4711", "--url", "https://x.org/a"]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return folder


def answers():
    """The text of every answer in solutions/ that is more than one line."""
    found = []
    for path in (ROOT / "solutions").glob("*.ipynb"):
        for cell in nbformat.read(path, as_version=4).cells:
            for region in re.findall(r"### BEGIN SOLUTION\n(.*?)\n\s*### END SOLUTION", cell.source, re.DOTALL):
                found += [region] if "\n" in region else []
    return found


def test_no_answer_is_in_it(repo):
    assert len(answers()) > 10
    texts = [file.read_text() for file in repo.rglob("*") if file.is_file() and file.suffix != ".whl"]
    cells = [cell.source for file in repo.rglob("*.ipynb") for cell in nbformat.read(file, as_version=4).cells]
    (wheel,) = repo.glob("*.whl")
    with zipfile.ZipFile(wheel) as files:
        names = [name for name in files.namelist() if name.endswith(".ipynb")]
        for name in names:
            nb = nbformat.reads(files.read(name).decode(), as_version=4)
            cells += [cell.source for cell in nb.cells]
    assert names and not (repo / "solutions").exists()
    leaked = [answer for answer in answers() for text in [*texts, *cells] if answer in text]
    assert not leaked and not any("### BEGIN SOLUTION" in text for text in cells)


def test_every_exercise_is_there_with_the_classs_seed_and_without_the_old_ones_outputs(repo):
    files = sorted((repo / "exercises").glob("*.ipynb"))
    assert [file.name[:2] for file in files] == list(EXERCISES)
    for file in files:
        nb = nbformat.read(file, as_version=4)
        nbformat.validate(nb)
        seeded = [i for i, cell in enumerate(nb.cells) if re.search(r"^SEED = ", cell.source, re.M)]
        assert all(f"SEED = {SEED}" in nb.cells[i].source for i in seeded)
        assert not [cell for cell in nb.cells[seeded[0]:] if cell.get("outputs")] if seeded else True
        assert "https://x.org/a/raw/main/pagedlab-" in nb.cells[1].source


def test_what_the_workflows_run_are_scripts_and_targets_that_are_there(repo):
    targets = {line.partition(":")[0] for line in (ROOT / "Makefile").read_text().splitlines()}
    for folder in (repo, ROOT):
        for workflow in (folder / ".github" / "workflows").glob("*.yml"):
            for job in yaml.safe_load(workflow.read_text())["jobs"].values():
                commands = [step["run"] for step in job["steps"] if "run" in step]
                assert commands
                for command in commands:
                    made = folder == ROOT and command.startswith("make ") and command.removeprefix("make ") in targets
                    assert made or (folder / command.removeprefix("sh ")).is_file(), command


def test_a_folder_that_is_in_use_is_left_alone(repo):
    command = [sys.executable, ROOT / "tools" / "class_repo.py", repo]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1 and "new or an empty folder" in done.stderr


def test_its_set_up_installs_its_own_wheel_and_refuses_another_one(repo, tmp_path):
    """setup.sh with a Python that has the dependencies already, so that nothing has to come from anywhere."""
    copy = tmp_path / "copy"
    shutil.copytree(repo, copy)
    parent = tmp_path / "python3"
    here = sysconfig.get_path("purelib")
    # Without a pip of its own: then it is this Python's, which is new enough, and finds nothing to fetch.
    fill = f'for d in .venv/lib/python*/site-packages; do\necho "{here}" > $d/p.pth; done'
    parent.write_text(f'#!/bin/sh\n"{sys.executable}" "$@" --without-pip && {fill}\n')
    parent.chmod(0o755)
    env = os.environ | {"PYTHON": str(parent), "PIP_NO_INDEX": "1"}
    done = subprocess.run(["sh", "setup.sh"], cwd=copy, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    code = "import pagedlab; print(pagedlab.__file__)"
    where = subprocess.run([copy / ".venv" / "bin" / "python", "-P", "-c", code], capture_output=True, text=True)
    assert where.stdout.startswith(str(copy)), where.stderr

    (wheel,) = copy.glob("*.whl")
    wheel.write_bytes(wheel.read_bytes() + b"x")
    assert subprocess.run(["sh", "setup.sh"], cwd=copy, env=env, capture_output=True).returncode != 0


def test_as_handed_out_it_grades_to_nothing_and_writes_its_results(repo, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(repo, copy)
    for file in sorted((copy / "exercises").iterdir())[2:]:  # two are enough: each one is tried as shipped elsewhere
        file.unlink()
    summary = tmp_path / "summary.md"
    env = os.environ | {"PY": sys.executable, "GITHUB_STEP_SUMMARY": str(summary)}
    done = subprocess.run(["sh", "grade.sh", "--min-score", "1"], cwd=copy, env=env, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    results = json.loads((copy / "results" / "grade.json").read_text())
    assert [one["earned"] for one in results] == [0, 0]
    assert {one["seed"] for one in results} <= {SEED, 0}
    assert "0 of" in done.stdout and "0 of" in summary.read_text()
    written = {file.name for file in (copy / "results").iterdir()}
    assert {"grade.xml", "grades.csv", "grades.html", "feedback"} <= written


@pytest.mark.parametrize("folder, word", [
    ("file/new", "cannot be written"), ("loop", "there already"), ("x" * 300, "too long"), ("file", "there already"),
])
def test_a_folder_that_cannot_be_made_is_refused_with_a_sentence(tmp_path, folder, word):
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    command = [sys.executable, str(ROOT / "tools" / "class_repo.py"), folder]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1 and word in done.stderr and done.stderr.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "loop"]


@pytest.mark.parametrize("arguments, word", [
    (["--jobs", "0"], "jobs is 0"), (["--to", "file"], "file cannot be written"), (["--to", "file/x"], "Name another"),
    (["99"], "no chapter 99"),
])
def test_the_site_is_refused_with_a_sentence_before_a_chapter_runs(tmp_path, arguments, word):
    (tmp_path / "file").touch()
    command = [sys.executable, str(ROOT / "tools" / "build_site.py"), "--to", "site", *arguments]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100)
    assert done.returncode == 1 and word in done.stderr and done.stderr.count("\n") == 1
