"""An engine made of a learner's parts: what is solved goes in, what is not is replaced and said."""

import nbformat
import pytest
from submissions import ROOT

from pagedlab.engine import LLM
from pagedlab.grading import my_engine
from pagedlab.hunt.stress import KNOBS, stress
from pagedlab.trace.invariants import first_broken

QUICK = {name: my_engine.TAKEN[name] for name in ("03.1", "03.2", "06.1", "06.2", "06.3", "07.1", "07.3", "07.4")}


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(my_engine, "TAKEN", QUICK)


def test_solved_parts_are_the_learners_and_run_as_ours_do():
    mine = my_engine.load(ROOT / "solutions")
    assert [whose for *_, whose in mine.rows] == ["yours"] * len(QUICK)
    model = LLM("tiny-random", device="cpu", num_gpu_blocks_override=2)
    for era, parts in (("v1", mine.v1()), ("paper", mine.paper())):
        own = LLM(model, record=True, era=era, **KNOBS, **parts)
        ours = LLM(model, record=True, era=era, **KNOBS)
        assert stress(own, 3, 6) == stress(ours, 3, 6)
        assert first_broken(own.trace) is None
        assert any("submission" in event.source or "my_engine" in event.source for event in own.trace.events)


def test_what_is_not_solved_is_pagedlabs_own_and_the_reason_is_given(tmp_path):
    mine = my_engine.load(ROOT / "exercises")
    assert mine.v1() == mine.paper() == mine.attention() == {}
    assert {whose for *_, whose in mine.rows} == {"pagedlab's own (not solved yet)"}
    nothing = my_engine.load(tmp_path)
    assert {whose for *_, whose in nothing.rows} == {"pagedlab's own (the notebook is not there)"}
    assert "03.1" in nothing._repr_markdown_() and "03.1" in repr(nothing)


def test_a_wrong_part_does_not_get_into_the_engine(tmp_path):
    nb = nbformat.read(ROOT / "solutions" / "03_block_table.ipynb", as_version=4)
    for cell in nb.cells:
        if cell.cell_type == "code" and "# part 03.2" in cell.source:
            cell.source = "# part 03.2\ndef slot_mapping(block_ids, block_size, start, end, pad_to=0):\n    return [0]"
    nbformat.write(nb, tmp_path / "03_block_table.ipynb")
    mine = my_engine.load(tmp_path)
    assert "BlockTable" in mine.own and "slot_mapping" not in mine.own
    assert any("not right yet" in whose for *_, whose in mine.rows)
