"""`pagedlab doctor`: the course runs (0) or not (1), and each thing that is not right comes with what to do."""

import shutil
import sys
from importlib import metadata

import pytest
import torch

from pagedlab import doctor
from pagedlab.kernels.wgsl.gpu import adapters, name_of
from pagedlab.model import download


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("PAGEDLAB_CACHE", str(tmp_path))
    return tmp_path


def line(out: str, name: str) -> list[str]:
    """The state of a line, and its text with what follows under it."""
    lines = out.splitlines()
    at = next(i for i, text in enumerate(lines) if text[10:].startswith(name))
    below = next((i for i in range(at + 1, len(lines)) if lines[i][:22].strip()), len(lines))
    return [lines[at][:10].strip(), " ".join(text.strip() for text in [lines[at][22:], *lines[at + 1:below]])]


def test_here_the_course_can_run(run):
    done = run("doctor")
    assert done.status == 0, done.out
    assert "The course can run here." in done.out
    assert line(done.out, "torch")[1].startswith(torch.__version__.split("+")[0])
    if sys.platform == "linux":
        assert line(done.out, "Triton") == ["ok", metadata.version("triton")]
    else:
        assert line(done.out, "Triton")[0] == "note"
    if not torch.cuda.is_available():
        assert "no CUDA device: the CPU is used" in line(done.out, "device")[1]


def test_adapters_are_listed_with_how_to_use_them_and_nothing_is_left_behind(run, monkeypatch, tmp_path):
    found = adapters()  # in this process, which may keep a cache
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    state, text = line(run("doctor").out, "WebGPU")
    assert state == ("ok" if found else "note")
    if found:
        assert name_of(found[0]) in text and "PAGEDLAB_DEVICE=webgpu" in text
        assert ("software" in text) == (found[0].info["adapter_type"] == "CPU")
    assert not [*tmp_path.iterdir()]


def test_without_a_driver_there_is_no_adapter_and_the_course_runs(run, monkeypatch, tmp_path):
    for name in ("VK_ICD_FILENAMES", "VK_DRIVER_FILES"):
        monkeypatch.setenv(name, str(tmp_path / "none.json"))
    done = run("doctor")
    state, text = line(done.out, "WebGPU")
    assert (done.status, state) == (0, "note") and "no adapter" in text and "Vulkan driver" in text


@pytest.mark.parametrize("program, words", [
    ("raise SystemExit('the driver said no')", "cannot be listed: the driver said no"),
    ("import os; os.abort()", "cannot be listed: status -"),
    ("import time; time.sleep(30)", "no answer within 1 seconds"),
])
def test_a_driver_that_crashes_or_hangs_is_a_note(run, monkeypatch, tmp_path, program, words):
    """Another program in the place of Python: the real one cannot be made to crash."""
    python = tmp_path / "python"
    python.write_text(f"#!{sys.executable}\n{program}\n")
    python.chmod(0o755)
    monkeypatch.setattr(doctor.sys, "executable", str(python))
    monkeypatch.setattr(doctor, "ADAPTERS_ANSWER_IN", 1 if "sleep" in program else 30)
    (finding,) = doctor._webgpu()
    assert finding.state == "note" and words in finding.text


def test_a_package_that_misses_its_library_is_a_note(monkeypatch, tmp_path):
    monkeypatch.setenv("WGPU_LIB_PATH", str(tmp_path / "none.so"))
    (finding,) = doctor._webgpu()
    assert finding.state == "note"
    assert finding.text.startswith("its adapters cannot be listed: The package wgpu cannot load its library: ")


def test_a_notebook_gets_the_same_report(run, capsys):
    doctor.doctor()
    in_notebook = capsys.readouterr().out.splitlines()
    in_terminal = run("doctor").out.splitlines()
    changing = ("memory",)
    keep = [text for text in in_notebook if text[10:].startswith(changing) is False]
    assert keep == [text for text in in_terminal if text[10:].startswith(changing) is False]


def test_a_missing_model_file_is_a_note_that_names_the_command(run, cache):
    done = run("doctor")
    state, text = line(done.out, "model")
    assert (done.status, state) == (0, "note")
    assert "not downloaded" in text and "pagedlab fetch-model" in text


def test_a_truncated_model_file_is_a_problem(run, cache):
    (cache / download.FILE_NAME).write_bytes(b"GGUF")
    done = run("doctor")
    state, text = line(done.out, "model")
    assert (done.status, state) == (1, "problem")
    assert "damaged" in text and "4 bytes" in text and "pagedlab fetch-model" in text
    assert done.out.splitlines()[-1] == "The course cannot run yet. To put right: model."


def test_no_room_for_the_model_file_is_a_problem(run, cache, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(1 << 30, 1 << 30, 5 << 20))
    done = run("doctor")
    state, text = line(done.out, "model")
    assert (done.status, state) == (1, "problem")
    assert "5 MiB free" in text and "PAGEDLAB_CACHE" in text


def test_without_chromium_there_is_only_a_note(run, monkeypatch):
    real = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name: None if name in doctor.CHROMIUM_NAMES else real(name))
    monkeypatch.setattr(doctor, "CHROMIUM_ON_MACOS", ())
    done = run("doctor")
    assert done.status == 0
    state, text = line(done.out, "Chromium")
    assert state == "note" and "browser tests" in text and "apt-get install chromium-headless-shell" in text


def test_a_missing_or_too_old_library_is_a_problem_with_its_name(run, monkeypatch):
    real = metadata.version

    def version(name):
        if name == "anywidget":
            raise metadata.PackageNotFoundError(name)
        return "0.1" if name == "gguf" else real(name)

    monkeypatch.setattr(metadata, "version", version)
    done = run("doctor")
    assert done.status == 1
    state, text = line(done.out, "libraries")
    assert state == "problem" and "anywidget is missing" in text and "gguf is 0.1" in text and "make env" in text
    assert line(done.out, "JupyterLab")[0] == "problem"


def test_a_python_that_the_project_does_not_allow_is_a_problem(run, monkeypatch):
    monkeypatch.setattr(doctor.platform, "python_version", lambda: "3.10.4")
    done = run("doctor")
    assert done.status == 1
    state, text = line(done.out, "Python")
    assert state == "problem" and "3.10.4" in text and ">=3.11" in text and "make env" in text


def test_a_card_that_torch_cannot_use_gets_a_note(run, monkeypatch):
    monkeypatch.setattr(doctor, "_has_nvidia_card", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    done = run("doctor")
    assert done.status == 0
    state, text = line(done.out, "device")
    assert state == "note" and "the CPU is used" in text and "NVIDIA card" in text


@pytest.mark.parametrize("columns", [40, 80, 120])
def test_it_keeps_to_the_terminals_width(run, cache, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    longest = max(map(len, run("doctor").out.splitlines()))
    assert longest <= max(columns, 52 + len(str(cache)))


def test_colour_is_for_terminals_and_not_against_no_color(run, run_in_terminal, monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[" not in run("doctor").out
    coloured = run_in_terminal("doctor")
    assert coloured.status == 0 and "\x1b[32mok" in coloured.out
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in run_in_terminal("doctor").out
