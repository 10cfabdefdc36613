"""The bench of the labs runs, and its JSON has the figures that a note may quote. No figure is asserted."""

import json
import subprocess
import sys

import pytest

import pagedlab.viz
from pagedlab.bench.lab_cells import LABS


def test_the_bench_has_every_lab():
    assert set(LABS) == set(pagedlab.viz.__all__)


@pytest.mark.browser
@pytest.mark.slow
def test_the_bench_of_the_labs_measures_ours_and_plotly_in_one_run(chromium):
    # In a process of its own: playwright runs once in a process, and here it drives the other tests.
    command = [sys.executable, "-m", "pagedlab", "bench", "labs", "--steps", "3", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert (result["benchmark"], result["blocks"], result["block_size"], result["steps"]) == ("labs", 256, 16, 3)
    ours, theirs = result["memory_map"], result["plotly"]
    times = ("engine", "engine_itself", "without_engine", "seen")
    names = {f"{name}{end}" for name in times for end in ("_ms", "_every_ms")}
    assert set(ours) == {"first_paint_ms", "bytes_per_step", "frame_ms", "of_plotly"} | names
    assert ours["engine_itself_ms"] < ours["engine_ms"]
    assert ours["of_plotly"] == round(ours["without_engine_ms"] / theirs["update_ms"], 2)
    assert set(result["labs"]) == set(pagedlab.viz.__all__)
    step = {"first_paint_ms", "bytes_per_step", "step_ms", "step_every_ms"}
    assert all(set(figures) == step for figures in result["labs"].values())
    assert set(theirs) == {"first_paint_ms", "bytes_per_step", "update_ms", "update_every_ms"}
    for figures in (ours, theirs, *result["labs"].values()):
        assert figures["first_paint_ms"] > 16 and figures["bytes_per_step"] > 0
        for name, values in figures.items():
            assert not name.endswith("every_ms") or len(values) == 3 and min(values) > 0
