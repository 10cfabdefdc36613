"""Machines that are not like ours: a clone with other line ends, a Python whose path has a space, no home folder."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from pagedlab.cache import cache_folder
from pagedlab.errors import PagedlabError

# Nobody's home can be looked up, as for a container's user that has no entry: then Python raises, or leaves "~" alone.
HOMELESS = """
import os, pwd, sys
def nobody(*_): raise KeyError("no such user")
pwd.getpwuid = pwd.getpwnam = nobody
from pagedlab.cli import main
main(sys.argv[1:])
"""


def test_a_clone_that_would_turn_line_ends_keeps_those_of_every_text(root, tmp_path):
    if not (root / ".git").exists():
        pytest.skip("not a git checkout, so it cannot be cloned")
    clone = tmp_path / "clone"
    turning = ["-c", "core.autocrlf=true", "-c", "core.eol=crlf"]
    subprocess.run(["git", "clone", "-q", "--depth=1", *turning, root.as_uri(), clone], check=True)
    listed = subprocess.run(["git", "ls-files", "--eol"], cwd=clone, capture_output=True, text=True, check=True).stdout
    assert "w/lf" in listed and not [line for line in listed.splitlines() if "w/crlf" in line or "w/mixed" in line]
    # What git was told is no text is none: a recording that had its line ends "mended" would be broken.
    assert not [line for line in listed.splitlines() if line.startswith("i/-text") and "attr/-text" not in line]
    for script in [*clone.glob("tools/**/*.sh"), clone / ".ci" / "run"]:
        subprocess.run(["sh" if script.suffix else "bash", "-n", script], check=True)


def test_a_clone_holds_files_only_and_no_link_to_a_place_of_one_machine(root):
    """A link in place of an environment's folder would be followed everywhere else, or lead nowhere."""
    listed = subprocess.run(["git", "ls-files", "-s"], cwd=root, capture_output=True, text=True)
    if listed.returncode != 0:
        pytest.skip("not a git checkout, so there are no tracked files to read")
    modes = {line.split()[0] for line in listed.stdout.splitlines()}
    assert modes == {"100644", "100755"}


@pytest.mark.slow
def test_the_environment_is_built_from_a_python_whose_path_has_a_space(root, tmp_path):
    there = tmp_path / "My Programs"
    there.mkdir()
    (there / "python3").symlink_to(os.path.realpath(sys.executable))
    project = tmp_path / "my project"
    (project / "tools").mkdir(parents=True)
    for name in ("tools/setup_env.sh", "tools/env_parts.sh", "constraints.txt", "pyproject.toml", "setup.py"):
        (project / name).write_bytes((root / name).read_bytes())
    env = os.environ | {"PYTHON": str(there / "python3"), "PIP_ARGS": "--no-index --no-such-option"}
    done = subprocess.run(["sh", "tools/setup_env.sh"], cwd=project, env=env, capture_output=True, text=True)
    version = ".".join(map(str, sys.version_info[:3]))
    assert done.stdout == f"env: building .venv with Python {version}\n", done.stderr
    assert "no such option" in done.stderr  # so far it came: pip of the new environment was asked
    env["PYTHON"] = str(there / "python 9")
    (project / ".venv" / "bin" / "python").unlink()
    done = subprocess.run(["sh", "tools/setup_env.sh"], cwd=project, env=env, capture_output=True, text=True)
    assert done.returncode == 1 and "Python 3.11 to 3.14 is needed" in done.stderr


def without_home(*arguments, **env):
    left = {name: value for name, value in os.environ.items() if name not in ("HOME", "XDG_CACHE_HOME")}
    return subprocess.run(
        [sys.executable, "-c", HOMELESS, *arguments], env=left | env, capture_output=True, text=True, timeout=300
    )


@pytest.mark.parametrize("home", [{}, {"HOME": ""}], ids=["no HOME", "an empty HOME"])
def test_without_a_home_folder_one_sentence_says_what_to_set(home, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for command in (["generate", "hi"], ["fetch-model"]):
        done = without_home(*command, **home)
        assert done.returncode == 2 and "set PAGEDLAB_CACHE" in done.stderr and "Traceback" not in done.stderr
    done = without_home("doctor", **home)
    assert "PAGEDLAB_CACHE" in done.stdout and not done.stderr
    done = without_home("generate", "hi", "--model", "tiny-random", "--max-tokens", "2", **home)
    assert done.returncode == 0 and not done.stderr
    assert not list(tmp_path.iterdir())  # no folder called "~"


@pytest.mark.parametrize("name", ["HOME", "XDG_CACHE_HOME"])
def test_a_home_that_depends_on_the_working_folder_is_refused(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for command in (["generate", "hi"], ["fetch-model"]):
        done = without_home(*command, **{name: "relative"})
        assert done.returncode == 2 and "depends on the working folder" in done.stderr and done.stderr.count("\n") == 1
    done = without_home("doctor", **{name: "relative"})
    assert "set PAGEDLAB_CACHE" in " ".join(done.stdout.split()) and not done.stderr
    assert not list(tmp_path.iterdir())


# For root nothing is forbidden; so it becomes nobody, when all has been imported.
NOBODY = """
import fcntl, os
from pagedlab.doctor import _model
from pagedlab.errors import PagedlabError
from pagedlab.model.weights import ensure_model_file, load_model
if os.geteuid() == 0:
    os.setgroups([]), os.setgid(65534), os.setuid(65534)
for ask in (ensure_model_file, load_model):
    try:
        ask()
    except PagedlabError as error:
        print(error)
print(_model())
"""


@pytest.mark.parametrize("where", ["a file", "may not be written", "may not be looked into"])
def test_a_home_in_which_nothing_can_be_kept_is_one_sentence(where, monkeypatch):
    for name in ("XDG_CACHE_HOME", "PAGEDLAB_CACHE"):
        monkeypatch.delenv(name, raising=False)
    with tempfile.TemporaryDirectory() as folder:  # pytest's own would be hidden from nobody
        os.chmod(folder, 0o711)
        home = Path(folder) / "home"
        if where == "a file":
            home.write_text("")
        else:
            home.mkdir(mode=0o555 if where == "may not be written" else 0)
        monkeypatch.setenv("HOME", str(home))
        done = subprocess.run([sys.executable, "-c", NOBODY], capture_output=True, text=True, timeout=300)
    assert not done.stderr
    fetched, loaded, looked = done.stdout.splitlines()
    assert "Set PAGEDLAB_CACHE" in fetched and loaded == fetched
    assert "state='problem'" in looked and f"{home}, where it would be kept, cannot be written" in looked


def test_without_a_home_folder_the_variables_that_need_none_do(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "pagedlab"
    monkeypatch.delenv("XDG_CACHE_HOME")
    with pytest.raises(PagedlabError, match="set PAGEDLAB_CACHE"):
        cache_folder()
    monkeypatch.setenv("PAGEDLAB_CACHE", str(tmp_path / "chosen"))
    assert cache_folder() == tmp_path / "chosen"
