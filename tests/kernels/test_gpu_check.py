"""gpu-check without a GPU: it says that there is none, and its parts are the same code in small, under the interpreter.

What the parts measure here is thrown away: a CPU's interpreter says nothing about a GPU.
"""

import json
import os
import subprocess
import sys
import warnings

import pytest
import torch

from pagedlab import LLM, SamplingParams
from pagedlab.bench.gpu import ahead, check
from pagedlab.bench.gpu.parts import PARTS
from pagedlab.bench.gpu.report import Report
from pagedlab.bench.gpu.setting import Setting
from pagedlab.trace.store import load


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_without_a_cuda_device_it_says_so_and_writes_nothing(tmp_path, capsys):
    assert check.run(False, tmp_path / "out") == 2
    assert "No CUDA device is here: nothing was measured" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def small(tmp_path):
    return Setting(
        torch.device("cpu"), tmp_path, query_heads=4, kv_heads=2, head_size=32, batches=(1, 2), contexts=(20, 70),
        target=(2, 70), long=(1, 70), head_sizes=(32,), copy_bytes=1 << 16,
        check_contexts=(1, 16, 40), check_queries=(1, 16, 5), new_tokens=3, chunk=8,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name, part", PARTS, ids=[name for name, _ in PARTS])
def test_every_part_of_the_check_runs_and_finds_nothing_wrong(name, part, tmp_path):
    report = Report(seconds=600)
    report.run(name, part, small(tmp_path))
    rows = report.parts[name]["rows"]
    assert rows and not report.failed, rows
    json.dumps(report.parts)


@pytest.mark.slow
def test_the_engines_part_starts_no_program_and_says_that_its_weights_are_random(tmp_path, monkeypatch):
    """With an empty cache, so that loading the real model would start pip to fetch it."""
    monkeypatch.setenv("PAGEDLAB_CACHE", str(tmp_path / "cache"))

    def started(*arguments, **options):
        raise AssertionError(f"a program was started: {arguments}")

    monkeypatch.setattr(subprocess, "Popen", started)
    report = Report(seconds=600)
    report.run("engine", dict(PARTS)["engine"], small(tmp_path))
    decoded, chunked = report.parts["engine"]["rows"]
    assert not report.failed and not (tmp_path / "cache").exists()
    assert decoded["model"] == chunked["model"] == "SmolLM2-135M's sizes, random weights"
    assert "random weights" in decoded["text"] and decoded["tokens_per_second"] > 0
    trace = load(tmp_path / "gpu-decode.jsonl.gz")
    assert trace.header["model"] == "SmolLM2-135M's sizes, random weights"
    assert sum(event.kind == "token_sampled" for event in trace.events) == 4 * (2 + 3)


def test_the_kernel_trace_can_be_read_and_claims_no_gpu(tmp_path):
    report = Report(seconds=600)
    report.run("kernel trace", dict(PARTS)["kernel trace"], small(tmp_path))
    trace = load(tmp_path / "gpu-kernel.jsonl.gz")
    assert trace.header["device"] == "CPU" and trace.header["compute_capability"] is None
    assert trace.events and all(event.sm is None and event.start_ns is None for event in trace.events)


def test_a_part_that_fails_is_an_entry_and_a_failure_not_the_end():
    def broken(report):
        raise RuntimeError("out of paper")

    report = Report(seconds=600)
    report.run("broken", broken)
    assert report.failed and "out of paper" in report.parts["broken"]["rows"][0]["text"]


def test_parts_are_left_out_when_the_time_is_over():
    report = Report(seconds=1)
    report.run("late", None)
    assert report.parts["late"]["rows"][0]["name"] == "left out" and not report.failed


def test_the_script_runs_from_a_clone_in_which_nothing_is_installed(root, tmp_path, compiling):
    """No installed package, so no `pagedlab.kernels`; only torch, triton and numpy are lent from here."""
    site = tmp_path / "site"
    site.mkdir()
    lent = ("torch", "triton", "numpy", "numpy.libs", "typing_extensions.py", "sympy", "mpmath", "filelock", "networkx",
            "jinja2", "markupsafe", "fsspec", "functorch", "torchgen")  # fmt: skip
    for name in lent:
        places = [os.path.join(folder, name) for folder in sys.path]
        found = next(filter(os.path.exists, places), None)
        if found:
            os.symlink(found, site / name)
    environment = compiling | {"PYTHONPATH": str(site)}
    code = (
        "import sys; sys.path.insert(0, '.')\n"
        "from pagedlab.bench.gpu.check import make_kernels_importable\n"
        "make_kernels_importable()\n"
        "import pagedlab.bench.gpu.parts, pagedlab.bench.gpu.webgpu.parts\n"
        "print('ready')\n"
    )
    done = subprocess.run([sys.executable, "-S", "-c", code], cwd=root, env=environment, capture_output=True, text=True)
    assert done.stdout.strip() == "ready", done.stderr


@pytest.mark.filterwarnings("ignore:called a synchronizing")
def test_waits_for_the_gpu_in_a_steps_first_half_are_named(monkeypatch):
    """Where there is a GPU torch warns of each; here one is made, and the mode is not switched."""
    modes = []
    monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", modes.append)
    llm = LLM(device="counting", num_gpu_blocks_override=16, block_size=4, async_scheduling=True)
    options = SamplingParams(max_tokens=3, ignore_eos=True)
    assert ahead.waits_in_a_plan(llm, [1, 2, 3], options) == []
    submit = llm.executor.submit

    def waiting(*given):
        warnings.warn("called a synchronizing CUDA operation", stacklevel=1)
        return submit(*given)

    llm.executor.submit = waiting
    (found,) = ahead.waits_in_a_plan(llm, [1, 2, 3], options)
    assert found.startswith("test_gpu_check.py:") and modes == ["warn", "default"] * 4
