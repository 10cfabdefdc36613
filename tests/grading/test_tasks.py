"""What stands beside a learner's code knows no answers."""

import subprocess
import sys

import pytest

from pagedlab.grading.part import EXERCISES, load_exercise
from pagedlab.grading.tasks import probe_of


@pytest.mark.parametrize("number", EXERCISES)
def test_each_part_asks_with_the_probe_of_its_task(number):
    for part in load_exercise(number).parts:
        assert part.probe is probe_of(part.name)


@pytest.mark.parametrize("number", EXERCISES)
def test_a_task_imports_nothing_that_knows_the_answers(number):
    code = (
        f"import sys, pagedlab.grading.tasks.ex{number}\n"
        "print([name for name in sys.modules if name.startswith('pagedlab.grading.exercises')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
