"""The memory map of a model whose layers look back at different numbers of tokens: two tables, one pool."""

import pytest

from pagedlab.engine import LLM, SamplingParams
from pagedlab.errors import PagedlabError
from pagedlab.trace import events as ev
from pagedlab.trace import load, replay, save
from pagedlab.viz import kernel_walk, memory_map, preemption, prefix_hits


@pytest.fixture(scope="module")
def run() -> LLM:
    llm = LLM("tiny-random-hybrid", device="cpu", record=True, block_size=4, num_gpu_blocks_override=48)
    for prompt in ("The window moves on", "Hello"):
        llm.add_request(prompt, SamplingParams(max_tokens=24, ignore_eos=True))
    while llm.has_unfinished_requests():
        llm.step()
    return llm


def texts(lab):
    return {mark.id: mark.text for mark in lab.static_marks()}


def test_the_tables_stand_side_by_side_as_the_manager_has_them(run):
    lab, met = memory_map(run), set()
    for position in range(lab.num_steps + 1):
        lab.move(position)
        lab.choose("A")
        state, marks = lab.state, texts(lab)
        tables = [tables.get("A", []) for tables in state.group_tables]
        for logical in [int(id.split(".")[2]) for id in marks if id.startswith("table.0.") and id.count(".") == 2]:
            for group, table in enumerate(tables):
                id = f"table.{group}.{logical}"
                if table[logical]:
                    assert marks[f"{id}.p"] == f"#{table[logical]}"
                else:
                    assert marks[f"{id}.null"] == "null" and group == 1
                    met.add(position)
    assert met and [marks for marks in (texts(lab)["title.group.0"], texts(lab)["title.group.1"])] == [
        "all tokens", "last 16",
    ]  # fmt: skip


def test_blocks_of_layers_with_a_window_are_dashed_and_nobody_holds_the_null_block(run):
    lab = memory_map(run, step=12)
    classes = {mark.id: mark.cls for mark in lab.static_marks()}
    full, window = ({b for table in tables.values() for b in table if b} for tables in lab.state.group_tables)
    assert full and window
    assert all("windowed" in classes[f"block.{b}"] for b in window)
    assert not any("windowed" in classes[f"block.{b}"] for b in full) and "owned" not in classes["block.0"]


def test_it_says_what_fell_out_of_the_window_and_how_many_blocks_each_table_has(run):
    step = next(
        replay(run.trace, i + 1).step for i, e in enumerate(run.trace.events) if isinstance(e, ev.BlocksOutOfWindow)
    )
    lab = memory_map(run, step=step, select="A")
    narrated = lab.view().words["say"]
    (block,) = next(e.block_ids for e in run.trace.events if isinstance(e, ev.BlocksOutOfWindow))
    assert f"#{block} fell out of the window and went back to the free queue: the null block stands" in narrated
    held = [sum(b != 0 for b in tables["A"]) for tables in lab.state.group_tables]
    assert f"in {held[0]} + {held[1]} blocks" in lab.view().title
    assert f"/#{lab.state.group_tables[1]['A'][-1]}" in lab.text()


def test_predictions_ask_for_the_first_layers_block(run):
    lab = memory_map(run, step=3, select="A")
    assert lab.asks()[0].ask.startswith("Where will layer 0's K and V of ")


def test_labs_that_know_one_table_say_so(run):
    for lab in (lambda: prefix_hits(run, "Hello"), lambda: preemption(run, run)):
        with pytest.raises(PagedlabError, match="which this lab does not show; memory_map"):
            lab()
    lab = kernel_walk(run.rerun(6), request_id="A", layer=2)
    assert lab.static_marks()
    with pytest.raises(PagedlabError, match="Layer 1 looks back at 16 tokens only.*layers 0, 2"):
        kernel_walk(run.rerun(6), request_id="A", layer=1)


def test_a_saved_run_shows_the_same_and_a_table_of_several_cannot_be_edited_by_hand(run, tmp_path):
    save(run.trace, tmp_path / "windows.jsonl")
    kept, live = memory_map(load(tmp_path / "windows.jsonl"), step=12, select="A"), memory_map(run, step=12, select="A")
    assert {id: text for id, text in texts(kept).items() if id.startswith("table")} == {
        id: text for id, text in texts(live).items() if id.startswith("table")
    }
    assert "grab" not in live.panes()
    twin = memory_map(LLM(run, record=True, block_size=4, num_gpu_blocks_override=48))
    twin.driver.llm.add_request("Hi there", SamplingParams(max_tokens=4))
    twin.forward()
    with pytest.raises(PagedlabError, match="several block tables a request"):
        twin.remap(0, 1)
