"""Where there is no Triton, lessons and exercises say so and go on."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from pagedlab.kernels import INTERPRETER, NEITHER, NOT_HERE, available, prepare, runs_here, webgpu

ROOT = Path(__file__).resolve().parents[2]
NO_TRITON = "import sys; sys.modules['triton'] = None\n"
NO_WEBGPU = "sys.modules['wgpu'] = None\n"


def python(code):
    done = subprocess.run([sys.executable, "-c", NO_TRITON + code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


REASON = "Triton is not installed" if sys.platform == "linux" else "this system has no Triton"


@pytest.mark.skipif(not available(), reason=REASON)
def test_with_triton_and_no_gpu_kernels_are_interpreted(capsys):
    import torch

    if not torch.cuda.is_available():
        assert prepare() == INTERPRETER
    assert available() and runs_here() and capsys.readouterr().out == ""


def test_without_triton_a_lesson_is_told_so_in_one_line():
    lesson = "from pagedlab.kernels import *; print(prepare(), runs_here(), runs_here(in_wgsl=False))"
    assert python(NO_WEBGPU + lesson) == f"not run here: {NEITHER}\n{NOT_HERE}\nNone False False\n"
    if webgpu():
        assert python(lesson) == f"{NOT_HERE}\nWGSL · {webgpu()} True False\n"


def test_without_triton_and_webgpu_a_kernel_can_be_written_and_its_check_says_not_run_here():
    output = python(
        NO_WEBGPU + "from pagedlab.grading import check, report\n"
        "from pagedlab.grading.tasks.ex05 import load_triton\n"
        "triton, tl = load_triton()\n"
        "@triton.jit\n"
        "def my_kernel(output, SIZE: tl.constexpr):\n"
        "    tl.store(output, 0)\n"
        "check('05.3', my_kernel, my_kernel)\n"
        "report('05')\n"
    )
    assert output.splitlines()[0].startswith("· 05.3") and f"not run here: {NEITHER}" in output
    assert output.splitlines()[-1].strip() == "so far 0 of 8 points"


@pytest.mark.skipif(not webgpu(), reason="no WebGPU adapter here")
def test_without_triton_a_triton_kernel_is_told_to_be_wgsl():
    output = python(
        "from pagedlab.grading import CheckFailed, check\n"
        "from pagedlab.grading.tasks.ex05 import load_triton\n"
        "triton, tl = load_triton()\n"
        "try: check('05.3', triton.jit(print), triton.jit(print))\n"
        "except CheckFailed as error: print(error)\n"
    )
    assert "There is no Triton here to run split_kernel. Set IN_WGSL = True, and write it in WGSL." in output


@pytest.mark.parametrize("platform, why", [
    ("linux", "Triton is not installed (pip install triton)"),
    ("darwin", "Triton exists on Linux only"),
])
def test_why_there_is_none_depends_on_the_system(platform, why):
    output = python(
        f"{NO_WEBGPU}import torch, pagedlab.grading.plain\nsys.platform = {platform!r}\n"
        "from pagedlab import kernels\n"
        "from pagedlab.grading.exercises.ex05.kernel import KERNEL\n"
        "print(KERNEL.missing(), kernels.NOT_HERE, sep='\\n')\n"
    )
    assert output.splitlines() == [f"{why}, and WebGPU finds no device here", f"not run here: {why}"]


def collect_without_triton(what, platform, tmp_path):
    """Let pytest collect `what` as CI on `platform` would, and say why it left anything out."""
    loaded = "torch, wgpu.backends.auto, pagedlab.grading.plain"  # what looks at the platform as it is
    blocked = f"{NO_TRITON}import {loaded}\nsys.platform = {platform!r}\n"
    (tmp_path / "no_triton.py").write_text(blocked)
    command = [sys.executable, "-m", "pytest", "-p", "no_triton", "-p", "no:cacheprovider", "-rs", "-q", "--co"]
    environment = os.environ | {"CI": "true", "PYTHONPATH": str(tmp_path)}
    return subprocess.run([*command, what], cwd=ROOT, env=environment, capture_output=True, text=True)


@pytest.mark.parametrize("platform, ends, why", [
    ("linux", 2, "Triton is not installed"),
    ("darwin", 0, "this system has no Triton"),
])
def test_without_triton_the_other_tests_of_this_folder_are_skipped_with_a_reason(platform, ends, why, tmp_path):
    done = collect_without_triton("tests/kernels/test_refusals.py", platform, tmp_path)
    assert (done.returncode in (0, 5)) == (ends == 0) and why in done.stdout, done.stdout + done.stderr


@pytest.mark.slow
def test_without_triton_all_tests_are_collected_and_those_that_need_it_reported(tmp_path):
    done = collect_without_triton("tests", "darwin", tmp_path)
    files = {path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("test_*.py")}
    if not importlib.util.find_spec("vllm"):
        files = {name for name in files if not name.startswith("tests/live/")}
    needing = {name for name in files if name.startswith("tests/kernels/") and not name.endswith("_without_triton.py")}
    assert done.returncode == 0, done.stdout + done.stderr
    assert {line.partition("::")[0] for line in done.stdout.splitlines() if "::" in line} == files - needing
    reported = rf"SKIPPED \[{len(needing)}\] tests/kernels/conftest.py:\d+: this system has no Triton"
    assert re.search(reported, done.stdout), done.stdout[-500:]


@pytest.mark.slow
@pytest.mark.parametrize("name, lines", [
    ("notebooks", ("66 scores, the same as torch's", "in one pass: largest 3.7860, sum 15.2246", NOT_HERE)),
    ("solutions", ("✓ 05.3", "2430 programs of your kernels", "the same tokens as before: True")),
])
def test_without_triton_the_notebook_runs_to_its_end_in_wgsl(name, lines):
    from nbclient import NotebookClient

    if not webgpu():
        pytest.skip("no WebGPU adapter here")
    nb = nbformat.read(ROOT / name / "05_inside_the_kernel.ipynb", as_version=4)
    nb.cells.insert(0, nbformat.v4.new_code_cell(NO_TRITON))
    for cell in nb.cells:
        cell.source = cell.source.replace("IN_WGSL = False", "IN_WGSL = True")
    NotebookClient(nb, timeout=300, kernel_name="python3").execute()
    output = "".join(o.get("text", "") for cell in nb.cells for o in cell.get("outputs", ()))
    for line in lines:
        assert line in output


def test_without_triton_its_back_end_is_refused_with_a_sentence():
    output = python(
        "from pagedlab.attention import choose_backend\n"
        "try: choose_backend('triton', None)\nexcept ValueError as error: print(error)"
    )
    assert output.startswith("The Triton back end cannot run: Triton ") and "Use backend='torch'" in output
