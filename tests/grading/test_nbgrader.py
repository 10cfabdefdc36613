"""nbgrader takes the notebooks as they are: it validates them, makes an assignment of them and grades it."""

import csv
import os
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from submissions import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.notebook]
NAME = "15_under_the_glass.ipynb"


def nbgrader(folder, *arguments):
    command = [sys.executable, "-m", "nbgrader", *arguments]
    programs = str(Path(sys.executable).parent)  # nbgrader calls alembic by its name
    env = os.environ | {"PATH": programs + os.pathsep + os.environ["PATH"]}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_autograde_gives_the_solution_all_points_and_the_exercise_none(tmp_path):
    source = tmp_path / "source" / "ps1"
    source.mkdir(parents=True)
    shutil.copy(ROOT / "solutions" / NAME, source)
    nbgrader(tmp_path, "generate_assignment", "ps1")
    made = nbformat.read(tmp_path / "release" / "ps1" / NAME, as_version=4)
    shipped = nbformat.read(ROOT / "exercises" / NAME, as_version=4)
    ours = [cell.source for cell in shipped.cells if "nbgrader" in cell.metadata]
    assert [cell.source for cell in made.cells] == ours

    for learner, folder in (("alice", "solutions"), ("bob", "exercises")):
        (tmp_path / "submitted" / learner / "ps1").mkdir(parents=True)
        shutil.copy(ROOT / folder / NAME, tmp_path / "submitted" / learner / "ps1")
    nbgrader(tmp_path, "autograde", "ps1")
    nbgrader(tmp_path, "export", "--to=grades.csv")
    rows = csv.DictReader((tmp_path / "grades.csv").open())
    assert {row["student_id"]: (row["score"], row["max_score"]) for row in rows} == {
        "alice": ("8.0", "8.0"), "bob": ("0.0", "8.0")}
    assert "VALIDATION FAILED ON 4 CELL" in nbgrader(tmp_path, "validate", str(ROOT / "exercises" / NAME))
