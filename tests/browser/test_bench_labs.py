"""The bench of the labs runs, and its JSON has the figures that a note may quote. No figure is asserted."""

import json

import pytest

from pagedlab.bench.labs import run

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def test_the_bench_of_the_labs_measures_ours_and_plotly_in_one_run(chromium, capsys):
    result = run(steps=3, json=True)
    assert json.loads(capsys.readouterr().out) == result
    assert (result["benchmark"], result["blocks"], result["block_size"], result["steps"]) == ("labs", 256, 16, 3)
    ours, theirs = result["memory_map"], result["plotly"]
    times = ("engine", "engine_itself", "seen")
    names = {f"{name}{end}" for name in times for end in ("_ms", "_every_ms")}
    assert set(ours) == {"first_paint_ms", "bytes_per_step"} | names
    assert ours["engine_itself_ms"] < ours["engine_ms"]
    assert set(theirs) == {"first_paint_ms", "bytes_per_step", "update_ms", "update_every_ms"}
    for figures in (ours, theirs):
        # A message to the kernel and back cannot be there before two frames are over.
        assert figures["first_paint_ms"] > 16 and figures["bytes_per_step"] > 0
        for name, values in figures.items():
            assert not name.endswith("every_ms") or len(values) == 3 and min(values) > 0
