"""The memory map of a model on several ranks: one table, and a slice of each block for every rank."""

import re

import pytest
from setups import on_ranks

from pagedlab.trace import load, save
from pagedlab.viz import memory_map
from pagedlab.viz.memory.words import scale


@pytest.fixture(scope="module")
def run():
    llm = on_ranks()
    yield llm
    llm.close()


def test_each_block_has_a_slice_for_every_rank_with_the_same_slots(run, tmp_path):
    save(run.trace, tmp_path / "ranks.jsonl.gz")
    lab = memory_map(load(tmp_path / "ranks.jsonl.gz"), step=4)  # from the header alone: no rank is asked
    marks, state = {mark.id: mark for mark in lab.static_marks()}, lab.state
    held = {block for table in state.tables.values() for block in table}
    assert held
    for block in held:
        written = [slot is not None for slot in state.slots[block]]
        slices = []
        for rank in range(2):
            slots = [marks[f"block.{block}.rank{rank}.s{offset}"] for offset in range(state.block_size)]
            assert ["hatched" not in mark.cls for mark in slots] == written
            slices.append([(mark.place[0], mark.place[2]) for mark in slots])
        assert slices[0] == slices[1], "the same slots, one below the other"
        assert not [id for id in marks if re.fullmatch(rf"block\.{block}\.(s\d+|rank2\..*)", id)]
    assert marks["title.pool.2"].text == "a slice on each of 2 ranks"


def test_a_slice_in_bytes_is_what_a_rank_has_of_a_block(run):
    each = run.executor.pool_bytes[1] // run.num_blocks
    text = scale(run.trace.header, run.config.block_size)
    assert text.startswith("1 slice = ") and text.endswith(f"= {each / 1024:.4g} KiB a rank")


def test_where_kv_heads_are_copied_a_slice_has_one():
    shape = {"num_layers": 2, "num_query_heads": 8, "num_kv_heads": 2, "head_size": 16, "bytes_per_element": 4}
    four, two, alone = ({"model_shape": shape, "config": {"tensor_parallel_size": n}} for n in (4, 2, 1))
    assert scale(four, 4).replace("a rank", "") == scale(two, 4).replace("a rank", "")
    assert "1 head ×" in scale(four, 4) and scale(alone, 4).startswith("1 block = ")
    assert scale({"model_shape": shape}, 4) == scale(alone, 4)  # a trace from before there were ranks
