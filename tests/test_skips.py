"""In CI nothing is skipped that could run there: the guard in `conftest.py`, in a run of its own."""

import os
import subprocess
import sys
from xml.etree import ElementTree

import pytest

TESTS = """
import pytest

def test_forgotten():
    pytest.skip("not installed")

def test_lacking():
    pytest.skip("this system has no /dev/full")

def test_almost_lacking():
    pytest.skip("this system has no /dev/full, and it rains")

@pytest.mark.skipif(True, reason="not installed, either")
def test_marked():
    pass

@pytest.mark.parametrize("x", [])
def test_of_nothing(x):
    pass

@pytest.mark.xfail(reason="this system has no /dev/full")
def test_expected():
    assert False

@pytest.mark.xfail
def test_not_expected():
    pass
"""
WHOLE = 'import pytest\npytest.skip("not installed", allow_module_level=True)\n'


@pytest.fixture
def outcomes(tmp_path, root):
    """Runs TESTS, and a file that skips itself, under the project's settings and its conftest."""
    (tmp_path / "test_some.py").write_text(TESTS)
    (tmp_path / "test_whole.py").write_text(WHOLE)
    (tmp_path / "conftest.py").write_text((root / "tests" / "conftest.py").read_text())
    (tmp_path / "pyproject.toml").write_text((root / "pyproject.toml").read_text())

    def run(ci: str) -> dict[str, str]:
        whole = ["--continue-on-collection-errors", "--junit-xml", "outcomes.xml", "-p", "no:cacheprovider", "-q", "."]
        environment = os.environ | {"CI": ci, "PYTHONPATH": str(root / "tests")}
        subprocess.run([sys.executable, "-m", "pytest", *whole], cwd=tmp_path, env=environment, capture_output=True)
        found = {}
        for case in ElementTree.parse(tmp_path / "outcomes.xml").iter("testcase"):
            name = (case.get("name") or case.get("classname")).partition("[")[0]
            found[name.removeprefix("test_")] = case[0].tag if len(case) else "passed"
        return found

    return run


def test_in_ci_only_what_no_install_brings_may_be_skipped(outcomes):
    assert outcomes("true") == {
        "forgotten": "failure",
        "lacking": "skipped",
        "almost_lacking": "failure",
        "marked": "error",
        "of_nothing": "error",
        "expected": "failure",
        "not_expected": "failure",
        "whole": "error",
    }


def test_on_a_persons_machine_what_is_not_there_is_skipped(outcomes):
    found = outcomes("")
    assert found.pop("not_expected") == "failure"  # it passed
    assert len(found) == 7 and set(found.values()) == {"skipped"}
