"""Every small change of a solution is caught, whatever is drawn; and what is caught is called by its name."""

import re
import subprocess
import sys
from textwrap import dedent

import pytest
import torch
from mutants.cells import needed, solved
from mutants.decide import Answers, each_in_a_fork, questions, verdict
from mutants.listed import change, equivalents
from mutants.operators import mutants
from submissions import MUTANTS, ROOT, answers_of, loses, mutants_in

from pagedlab.grading.part import EXERCISES, Verdict, load_exercise, load_part


@pytest.mark.slow
@pytest.mark.parametrize("number", EXERCISES)
def test_a_sample_of_mutants_is_caught_and_some_that_are_listed_still_survive(number):
    done = subprocess.run(
        [sys.executable, "-m", "mutants", "--sample", "5", number],
        cwd=ROOT, env={"PYTHONPATH": str(ROOT / "tools")}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def blamed(file):
    """Part -> the property that a wrong answer is said to break."""
    return dict(re.findall(r"^# blamed (\d\d\.\d): (.*)$", file.read_text(), flags=re.MULTILINE))


@pytest.fixture
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # a fork has none of the threads that its parent had
    yield
    torch.set_num_threads(threads)


@pytest.mark.slow
@pytest.mark.parametrize("number", EXERCISES)
def test_a_wrong_answer_is_blamed_for_what_is_wrong_by_the_cases_of_every_draw(number, one_thread):
    parts = [part.name for part in load_exercise(number).parts]
    always = {name: questions(load_part(name), solved(name).seed, 2)[0] for name in parts}
    files = [file for file in mutants_in(MUTANTS / number, "**/*") if file.parent.name != "wgsl"]  # test_wgsl.py

    def judged(job, folder):
        file, name = job
        answers = answers_of(file)
        above = [answers.get(part, solved(part).source) for part in parts if part <= name]
        cells = [answers[cell] for cell in answers if cell == "added"] + above
        given = needed(solved(name).given, cells)
        return verdict(load_part(name), Answers([given, *cells]), always[name], folder)

    for file in files:
        assert set(blamed(file)) == loses(file), f"{file} does not say for what it loses its points"
    jobs = [(file, name) for file in files for name in parts if name in answers_of(file)]
    for (file, name), found in each_in_a_fork(jobs, judged):
        assert found.property == blamed(file).get(name, ""), (file.name, name, found)
        assert found.passed or 10 < len(found.example) < 1200, (file.name, name, found)


def made(source, lines=None):
    source = dedent(source).strip()
    return {change("00.0", source, mutant).now for mutant in mutants(source, [lines or range(1, 99)])}


def test_mutants_change_what_people_get_wrong():
    found = made(
        """
        def f(row, count):
            kept = list(row)
            kept.pop()
            if count >= len(kept):
                return kept[:count], min(kept)
        """
    )
    assert {"kept = row", "if count > len(kept):", "if count < len(kept):", "if True:", "kept.pop(0)"} <= found
    assert {"return None", "return kept, min(kept)", "return kept[:count], max(kept)", "kept = list(count)"} <= found
    assert "kept.pop()\nkept = list(row)" in found and "pass" in found


def test_only_the_lines_that_answer_are_changed_and_errors_may_say_what_they_like():
    found = made("a = 1\nb = 2\nraise ValueError('no')", range(2, 4))
    assert found == {"b = 3", "b = 1", "b = 0", "b = None", "pass", "raise ValueError('no')\nb = 2"}


def test_what_hangs_or_dies_is_no_pass():
    def work(job, folder):
        if job == "dies":
            import os

            os._exit(3)
        return Verdict(True)

    found = dict(each_in_a_fork(["dies", "lives"], work))
    assert not found["dies"].passed and found["lives"].passed


def test_every_listed_mutant_has_a_reason():
    assert all(equivalents(number) is not None for number in EXERCISES)
