"""gpu-check --webgpu in small, on the adapter that is here; and what it says where there is none."""

import dataclasses
import json
import os
import subprocess
import sys

import numpy as np
import pytest

from pagedlab import SamplingParams
from pagedlab.bench.gpu import check
from pagedlab.bench.gpu.report import Report
from pagedlab.bench.gpu.webgpu import adapter, right
from pagedlab.bench.gpu.webgpu.cases import gate
from pagedlab.bench.gpu.webgpu.parts import PARTS
from pagedlab.bench.gpu.webgpu.setting import WebGPUSetting
from pagedlab.bench.gpu.webgpu.step import step_times
from pagedlab.kernels.wgsl.gpu import is_software
from pagedlab.kernels.wgsl.timing import Timer
from pagedlab.trace.store import load
from pagedlab.viz import kernel_walk

STEP = {"embedding", "products", "attention", "norm, rope, gate", "head"}


def small(gpu, out):
    return WebGPUSetting(
        gpu, out, "today", query_heads=4, kv_heads=2, head_size=32, batches=(1, 2), contexts=(20, 70), new_tokens=3,
        copy_bytes=1 << 20, pool_bytes=1 << 20, steps=((2, 20),), cases=0.01, model="tiny-random",
    )  # fmt: skip


@pytest.fixture(scope="module")
def setting(gpu, tmp_path_factory):
    return small(gpu, tmp_path_factory.mktemp("check"))


@pytest.fixture(scope="module")
def checked(setting):
    """A whole run: its exit status, its folder, and its figures."""
    path = setting.out / "webgpu-check.json"
    status = check.measure(PARTS, setting, adapter.where(setting.gpu), path)
    return status, setting.out, json.loads(path.read_text())


def test_every_part_runs_and_finds_nothing_wrong(checked):
    status, out, figures = checked
    assert status == 0 and not figures["failed"] and figures["seconds"] < 240
    assert list(figures["parts"]) == [name for name, _ in PARTS]
    assert all(part["rows"] and part["seconds"] >= 0 for part in figures["parts"].values())


def test_its_figures_stand_beside_a_copy_and_say_how_they_were_taken(checked, gpu):
    parts = checked[2]["parts"]
    copies = [row["bytes_per_second"] for row in parts["copy"]["rows"]]
    for row, (batch, context) in zip(parts["decode"]["rows"], [(1, 20), (1, 70), (2, 20), (2, 70)], strict=True):
        assert (row["batch"], row["context"]) == (batch, context) and row["how"] == Timer(gpu).how
        numbers = 2 * 2 * 32 * (2 if gpu.has_f16 else 4)  # K and V, KV heads, head size, bytes
        assert row["bytes_per_second"] == pytest.approx(batch * context * numbers / row["seconds"])
        assert row["of_copy"] == pytest.approx(row["bytes_per_second"] / max(copies))
    steps = {row["name"] for row in parts["token"]["rows"]} - {"model"}
    assert steps == {f"2 x 20: {part}" for part in STEP | {"the whole step"}}
    (python,) = parts["python"]["rows"]
    assert python["steps"] == 2 and all(python[f"{name}_seconds"] > 0 for name in ("engine", "submit", "collect"))


def test_its_traces_can_be_read_and_say_where_they_come_from(checked, gpu):
    decoded, kernel = (load(checked[1] / f"webgpu-{name}.jsonl.gz") for name in ("decode", "kernel"))
    for trace in (decoded, kernel):
        assert trace.header["device"] == gpu.name and trace.header["driver"] == gpu.driver
    assert sum(event.kind == "token_sampled" for event in decoded.events) == 4 * (2 + 3)
    assert {event.kind for event in kernel.events} == {"kernel_span"} and len(kernel.events) == 8
    assert len(kernel_walk(kernel).walk.spans) == 8


def test_a_software_adapter_is_called_one_in_words_and_in_the_figures(checked, gpu, tmp_path, capsys):
    where = checked[2]["provenance"]
    assert where["device"] == gpu.name and where["versions"]["wgpu"] and where["date"]
    assert where["software"] == is_software(gpu)
    assert ("mean nothing for a GPU" in (where["note"] or "")) == where["software"]
    check.measure((), None, where, tmp_path / "webgpu-check.json")
    assert ("its times mean nothing for a GPU" in capsys.readouterr().out) == where["software"]
    assert adapter.header_line(gpu, "today").startswith(f"{gpu.name}, driver: ")


@pytest.mark.parametrize("change, words", [
    (lambda case: {"wanted": {1: case.wanted[1] + 1e-3}}, "WRONG: 1 shapes, largest error"),
    (lambda case: {"wanted": {1: case.wanted[1] * np.nan}}, "WRONG: 1 shapes, largest error inf"),
    (lambda case: {"constants": {"LANES": 64}}, "WRONG: The kernel gate.wgsl cannot be compiled: "),
])  # fmt: skip
def test_a_wrong_number_and_a_kernel_that_cannot_be_compiled_are_entries(gpu, tmp_path, monkeypatch, change, words):
    def changed(rng, number):
        case = gate(rng, number)
        return dataclasses.replace(case, **change(case))

    monkeypatch.setattr(right, "CASES", ((changed, ("float32",), 1), (gate, ("float32",), 1)))
    report = Report(seconds=600)
    report.run("right?", right.kernels, small(gpu, tmp_path))
    wrong, good = report.parts["right?"]["rows"]
    assert report.failed and wrong["text"].startswith(words) and "WRONG" not in good["text"]
    json.dumps(report.parts, allow_nan=False)


@pytest.mark.parametrize("timestamps", [True, False])
def test_time_is_told_by_the_adapters_clock_or_by_ours(gpu, timestamps):
    timer = Timer(gpu)
    if timestamps and not timer.has_timestamps:
        pytest.skip("this machine's adapter has no timestamps")
    timer.has_timestamps = timestamps
    kernel = gpu.kernel("gate", INTERMEDIATE=1 << 18, LANES=64)
    bound = kernel.bind(gpu.buffer(1 << 21, "gate and up"), gpu.buffer(1 << 20, "gated"))
    short, long = (kernel.pipeline, bound, (1, 1)), (kernel.pipeline, bound, (1 << 12, 1))
    for _ in range(5):  # the machine may do something else for a while
        found = timer.by_part([("short", short), ("long", long), ("long", long), ("short", short)])
        alone = [timer.seconds([one]) for one in (short, long)]
        assert list(found) == ["short", "long"] and all(0 < seconds < 10 for seconds in alone)
        if 4 * alone[0] < alone[1] < 4 * found["long"] and 4 * found["short"] < found["long"]:
            break
    else:
        pytest.fail(f"in parts {found}, alone {alone}")


def test_a_steps_parts_are_its_kernels_and_leave_the_engine_as_it_was(setting):
    llm, params = setting.llm, SamplingParams(max_tokens=3, temperature=0.0)
    before = llm.generate([1, 2, 3], params)[0].outputs[0].token_ids
    times = step_times(llm, requests=2, context=40)
    assert set(times.parts) == STEP and all(seconds > 0 for seconds in times.parts.values()) and times.whole > 0
    assert sum(times.shares().values()) == pytest.approx(1) and times.how == setting.timer.how
    assert llm.generate([1, 2, 3], params)[0].outputs[0].token_ids == before


@pytest.mark.skipif(sys.platform != "linux", reason="only Vulkan's drivers can be hidden, with its own variables")
def test_without_an_adapter_it_says_so_in_a_sentence_and_writes_nothing(tmp_path):
    nothing = {name: str(tmp_path / "none.json") for name in ("VK_ICD_FILENAMES", "VK_DRIVER_FILES")}
    command = [sys.executable, "-m", "pagedlab", "gpu-check", "--webgpu", "--out", str(tmp_path / "out")]
    done = subprocess.run(command, env=os.environ | nothing, capture_output=True, text=True)
    assert done.returncode == 2 and done.stdout == "" and "Traceback" not in done.stderr
    assert "There is no WebGPU adapter on this machine." in done.stderr and "Nothing was measured" in done.stderr
    assert not (tmp_path / "out").exists()
