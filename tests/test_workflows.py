"""What GitHub runs: well-formed, on every Python and system that the course promises."""

import os
import shutil
import subprocess
import sysconfig
import tomllib

import pytest
import yaml
from packaging.specifiers import SpecifierSet

ACTIONLINT = shutil.which("actionlint", path=f"{sysconfig.get_path('scripts')}{os.pathsep}{os.environ.get('PATH', '')}")


@pytest.fixture
def jobs(root) -> dict:
    return yaml.safe_load((root / ".github/workflows/ci.yml").read_text())["jobs"]


@pytest.mark.skipif(not ACTIONLINT, reason="actionlint is not installed (make env)")
@pytest.mark.parametrize("workflow", [".github/workflows/ci.yml", "tools/class_repo/grade.yml"])
def test_actionlint_finds_nothing_in_a_workflow_and_something_in_a_broken_one(workflow, root, tmp_path):
    def lint(file):
        return subprocess.run([ACTIONLINT, file], cwd=root, capture_output=True, text=True)

    done = lint(root / workflow)
    assert done.returncode == 0, done.stdout + done.stderr
    broken = tmp_path / "broken.yml"
    broken.write_text((root / workflow).read_text().replace("runs-on:", "runs-upon:"))
    assert lint(broken).returncode == 1


def test_every_python_that_is_allowed_is_tried_and_found_by_make_env(root, jobs):
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    allowed = [f"3.{minor}" for minor in range(100) if f"3.{minor}" in SpecifierSet(project["requires-python"])]
    assert jobs["quick"]["strategy"]["matrix"]["python"] == allowed
    parts = (root / "tools/env_parts.sh").read_text()
    assert " ".join(f"python{version}" for version in allowed) in parts
    assert f"not ({allowed[0].replace('.', ', ')}) <= sys.version_info[:2] <= (3, $newest)" in parts
    assert f"newest={allowed[-1].removeprefix('3.')} " in (root / "tools/setup_env.sh").read_text()


def test_one_job_runs_everything_and_the_quick_tests_run_where_there_is_no_triton_too(jobs):
    runs = {name: [step.get("run") for step in job["steps"] if "run" in step] for name, job in jobs.items()}
    assert runs == {"everything": [".ci/run"], "quick": ["make test-quick"]}
    assert any(one["system"].startswith("macos") for one in jobs["quick"]["strategy"]["matrix"]["include"])
