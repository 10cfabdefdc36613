"""`bench engine --against vllm`, small: two real vLLM processes take turns with ours. No figure's size is asserted."""

import json

import pytest

from pagedlab.bench import engine, vllm_rounds
from pagedlab.bench.workloads import WORKLOADS, Workload

SMALL = Workload("small", "three prompts with a common start", (40, 45, 50), 5, shared=36)


def test_rounds_alternate_and_both_sides_give_our_tokens(monkeypatch, capsys, tmp_path):
    """Both are started eager: to compile takes two minutes, and changes nothing of what is asked here."""
    monkeypatch.setitem(WORKLOADS, "a", SMALL)
    turns, real = [], vllm_rounds.VLLM

    class Eager(real):
        def __init__(self, python, folder, kind, *rest):
            super().__init__(python, folder, "eager", *rest)
            self.turn = kind

        def run(self, prompts, new):
            turns.append((self.turn, len(prompts)))
            return super().run(prompts, new)

    monkeypatch.setattr(vllm_rounds, "VLLM", Eager)
    out = tmp_path / "engine.json"
    engine.run(cases="a", rounds=2, against="vllm", json=True, out=out)
    result = json.loads(capsys.readouterr().out)
    assert result == json.loads(out.read_text()) and result["benchmark"] == "engine --against vllm"
    assert turns == [("eager", 2), ("compiled", 2)] + [("eager", 3), ("compiled", 3)] * 2
    for about in result["vllm"].values():
        assert about["vllm"] == "0.32.0" and about["start_seconds"] > 0
        assert about["threads"] == result["machine"]["threads"]
    case = result["cases"]["a"]
    assert set(case["seconds"]) == {"pagedlab", "eager", "compiled"}
    assert all(len(rounds) == 2 and min(rounds) > 0 for rounds in case["seconds"].values())
    assert case["wrong_answers"] == {"eager": 0, "compiled": 0}
    medians = {name: sorted(seconds)[0] + sorted(seconds)[1] for name, seconds in case["seconds"].items()}
    for kind in vllm_rounds.KINDS:
        assert case["times_faster"][kind] == pytest.approx(medians[kind] / medians["pagedlab"], abs=0.02)
    shown = engine._table(result)
    assert "vLLM, compiled" in shown and "to start, which is in no figure below" in shown
