"""The cell that sets up Colab, as far as it can be tried without Colab: pip, a real wheel, a torch that is there."""

import subprocess
import sys
import sysconfig
import venv

import nbformat
import pytest
from submissions import ROOT

from pagedlab.grading.make_exercises import colab_source

ON_COLAB = "import sys, types\nsys.modules['google.colab'] = types.ModuleType('google.colab')\n"


def test_every_exercise_has_the_cell_folded_behind_its_title():
    for path in (ROOT / "exercises").glob("*.ipynb"):
        cell = nbformat.read(path, as_version=4).cells[1]
        assert cell.source == colab_source() and len(cell.source.splitlines()) <= 30
        assert cell.metadata.jupyter.source_hidden and cell.metadata.cellView == "form"


def test_anywhere_else_it_does_nothing(tmp_path):
    code = f"{colab_source()}\nprint(sorted(sys.modules.keys() & {{'subprocess', 'pagedlab', 'glob'}}))"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[]\n", "") and not list(tmp_path.iterdir())


@pytest.fixture
def elsewhere(tmp_path):
    """A Python without pagedlab, which finds everything else where this one has it."""
    folder = tmp_path / "python"
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    with open(f"{site}/parent.pth", "w") as file:  # what is named in a .pth file there is not read again
        file.write(sysconfig.get_path("purelib") + "\n")
    return python


@pytest.mark.slow
def test_on_colab_it_says_what_is_missing_then_installs_it_and_leaves_torch_alone(elsewhere, tmp_path):
    work = tmp_path / "content"
    work.mkdir()

    def run(code):
        return subprocess.run([elsewhere, "-c", ON_COLAB + code], cwd=work, capture_output=True, text=True)

    done = run(colab_source())
    assert "Upload your course's pagedlab" in done.stderr and not list(work.iterdir())

    command = [sys.executable, ROOT / "tools" / "class_repo.py", tmp_path / "repo", "--seed", "7"]
    subprocess.run(command, check=True, capture_output=True)
    (wheel,) = (tmp_path / "repo").glob("*.whl")
    wheel.rename(work / wheel.name)
    done = run(colab_source() + "\nimport pagedlab, torch; print(pagedlab.__file__); print(torch.__file__)")
    assert done.returncode == 0, done.stderr
    ours, torch = done.stdout.splitlines()
    assert ours.startswith(str(tmp_path)) and torch.startswith(sysconfig.get_path("purelib"))
    assert "torch==" in (work / "as-it-is.txt").read_text()
    assert run(colab_source()).returncode == 0  # a second time: nothing to do
