"""The kernel lab: its walk is the request's table, its addresses hold what they say, its softmax is torch's."""

import ctypes
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest
import torch

from pagedlab.engine import LLM
from pagedlab.engine.last_query import last_query
from pagedlab.errors import PagedlabError
from pagedlab.trace import Trace, save
from pagedlab.trace import events as ev
from pagedlab.trace.events import SCHEMA_VERSION
from pagedlab.viz.kernel.lab import KernelLab, kernel_walk
from pagedlab.viz.kernel.layout import Scene, address
from pagedlab.viz.kernel.live import live_walk
from pagedlab.viz.kit.marks import picture


@pytest.fixture(scope="module")
def llm(out_of_order):
    return out_of_order()


@pytest.fixture(scope="module")
def walk(llm):
    return live_walk(llm, "B", layer=1)


def test_the_walk_is_the_block_table_in_order_for_every_kv_head(llm, walk):
    table = llm.tables["B"].block_ids
    assert len(walk.spans) == 2
    for span in walk.spans:
        assert [(logical, physical) for _, logical, physical in span] == list(enumerate(table))
        assert [i for i, _, _ in span] == [logical * 4 // 16 for logical in range(len(table))]


def test_the_byte_addresses_hold_the_k_that_they_name(llm, walk):
    key = llm.kv_pool.layer(1).key
    for head in range(4):
        for read in range(1, len(walk.spans[0]) + 1):
            scene = Scene(walk, head, read)
            _, logical, physical = scene.now
            at = int(address(scene)[-1][2], 16)
            there = list((ctypes.c_float * 16).from_address(at))
            assert there == key[physical, 0, head // 2].tolist()


def test_the_softmax_ends_at_what_torch_and_the_kernel_have(llm, walk):
    query, blocks, context = last_query(llm, "B", 1)
    kv = llm.kv_pool.layer(1)
    positions = torch.arange(context)
    key, value = (t[torch.tensor(blocks)[positions // 4], positions % 4] for t in (kv.key, kv.value))
    for head in range(4):
        expected = torch.nn.functional.scaled_dot_product_attention(
            query[head][None], key[:, head // 2], value[:, head // 2]
        )[0]
        torch.testing.assert_close(torch.tensor(walk.rows[head][-1][4]), expected, atol=1e-5, rtol=1e-5)
        scores = (key[:, head // 2] @ query[head]) / 4
        torch.testing.assert_close(torch.tensor(sum((row[0] for row in walk.rows[head]), [])), scores)
        assert walk.rows[head][-1][1] == pytest.approx(scores.max().item())
        assert walk.rows[head][-1][2] == pytest.approx(torch.exp(scores - scores.max()).sum().item(), rel=1e-5)
    assert walk.difference < 1e-5 and walk.where == "Triton interpreter · CPU"


def test_the_query_is_asked_again_without_touching_memory(llm):
    before, events = llm.kv_pool.data.clone(), len(llm.trace.events)
    last_query(llm, "B", 2)
    assert torch.equal(llm.kv_pool.data, before) and len(llm.trace.events) == events


def test_a_row_appears_when_the_last_block_of_its_tile_was_read(walk):
    lab = KernelLab(walk, head=2)
    rows = []
    for read in range(lab.num_steps + 1):
        lab.seek(read)
        marks = picture(lab.marks())
        rows.append(sum(f"softmax.{i}.i" in marks for i in range(9)))
        assert sum(m.id.endswith(".order") for m in marks.values()) == read
        ET.fromstring(lab.svg("dark"))
    assert rows == [0, 0, 0, 0, 1, 1, 2]
    assert picture(lab.marks())["block.10.order"].text == "5"  # its logical block: one way to count, from 0
    assert "rescale 0.6" in lab.text()


def test_the_block_table_answers_the_question_before_the_block_is_read(llm, walk):
    lab, table = KernelLab(walk), llm.tables["B"].block_ids
    for read in range(1, lab.num_steps):
        lab.seek(read)
        marks = picture(lab.marks())
        assert [marks[f"entry.{i}.p"].text for i in range(6)] == [f"{i} → #{b}" for i, b in enumerate(table)]
        assert [marks[f"entry.{i}"].cls.startswith("card owned") for i in range(6)] == [i < read for i in range(6)]
        assert marks["entry.5.full"].text == f"{walk.context - 20}/4"


@pytest.mark.parametrize("length", [8, 9, 12, 13, 30])
def test_of_a_long_table_the_entries_read_now_and_next_are_shown(walk, length):
    long = replace(walk, context=4 * length, spans=[[(i // 4, i, i + 1) for i in range(length)]] * 2)
    lab = KernelLab(replace(long, rows=[walk.rows[0] * 30] * 4, num_blocks=40))
    for read in range(1, length + 1):
        lab.seek(read)
        shown = {id for id in picture(lab.marks()) if id.startswith("entry.") and id.count(".") == 1}
        assert len(shown) <= 8 and {f"entry.{read - 1}", f"entry.{min(read, length - 1)}"} <= shown
    assert ("table.shown" in picture(lab.marks())) == (length > 8)


def test_each_row_of_the_output_is_drawn_to_one_scale_with_its_signs(walk):
    lab = KernelLab(walk, head=1)
    lab.seek(lab.num_steps)
    marks = picture(lab.marks())
    rows = [row[4] for row in walk.rows[1]]
    largest = max(abs(v) for row in rows for v in row)
    assert f"over {largest / 2:.2g}," in marks["softmax.scale"].text
    assert marks["softmax.output"].text == "output (÷ l): 16 of 16 numbers"
    for i, row in enumerate(rows):
        middle = marks[f"softmax.{i}.zero"].place[1] + 0.4
        for d, value in enumerate(row):
            _, top, _, high = marks[f"softmax.{i}.o{d}"].place
            assert (top < middle - 0.1) == (value >= 0)
            assert (high > 7.9) == (abs(value) > largest / 2) and (high > 4.7) == (abs(value) > largest / 8)


def test_nothing_is_said_to_come_where_the_next_block_brings_it(walk):
    lab = KernelLab(walk)
    assert "its 16 tokens are read" in picture(lab.marks())["softmax.wait"].text
    assert "softmax.wait" not in picture(KernelLab(replace(walk, block_size=16)).marks())


def test_the_strides_are_told_from_what_they_are_made_of(walk):
    how = {what: how for what, how, _ in address(Scene(walk, 0, 1))}
    assert how["+ physical_block_offset × stride"] == "0 × 32 (2 heads × 16)"
    assert how["× stride of a block"].endswith(" × 128 (4 × 32)")
    apart = replace(walk, strides=(1024, 16, 64))  # HND: then they are not made of each other
    assert not any("(" in how for _, how, _ in address(Scene(apart, 0, 1)))


def test_a_prediction_is_answered_by_the_next_block(walk):
    lab = KernelLab(walk)
    assert lab.words()["question"] == "Which physical block is read next? Click it."
    lab.point("block.4")
    assert lab.words()["question"] == "You say #4." and "guess" in picture(lab.marks())
    lab.forward()
    assert lab.words()["verdict"] == "✓ #4, right. Score 1 of 1."
    lab.predict(9)
    lab.forward()
    assert lab.words()["verdict"] == "You said #9; it was #5. Score 1 of 2."
    lab.back()
    with pytest.raises(PagedlabError, match="last step that was seen"):
        lab.predict(5)
    with pytest.raises(PagedlabError, match="no block #99"):
        lab.predict(99)


@pytest.mark.parametrize("num_blocks", [14, 64, 256, 512, 4096])
def test_pools_of_any_size_stay_inside_the_frame(walk, num_blocks):
    lab = KernelLab(replace(walk, num_blocks=num_blocks))
    lab.forward(3)
    for mark in lab.static_marks():
        if len(mark.place) == 4 and mark.id != "softmax.now":
            assert 0 <= mark.place[0] <= mark.place[0] + mark.place[2] <= 960, mark
            assert 0 <= mark.place[1] <= mark.place[1] + mark.place[3] <= lab.SIZE[1], mark
    ET.fromstring(lab.svg())
    assert ("too many to draw" in lab.svg()) == (num_blocks > 512)


def test_times_and_processors_are_shown_only_where_a_gpu_told_them(walk):
    assert "program.clock" not in picture(KernelLab(walk).marks())
    lab = KernelLab(replace(walk, clocks=[(5, 100, 2_900), (6, 0, 2_500)]))
    assert picture(lab.marks())["program.clock"].text == "ran on SM 5, from 100 to 2,900 ns"


def test_what_cannot_be_walked_is_said_in_one_sentence(llm, walk):
    for wrong, words in (
        (dict(request_id="Z"), "'Z' has nothing in memory"),
        (dict(layer=3), "There is no layer 3; the model has 0 to 2"),
    ):
        with pytest.raises(PagedlabError, match=words):
            kernel_walk(llm, **wrong)
    with pytest.raises(PagedlabError, match="no query head '4'"):
        KernelLab(walk, head=4)
    with pytest.raises(PagedlabError, match="add one and take a step"):
        kernel_walk(LLM(llm, record=True, block_size=4, num_gpu_blocks_override=8))


def test_a_recording_of_spans_shows_the_walk_and_the_processors_and_no_number_it_does_not_hold(tmp_path):
    spans = [
        ev.KernelSpan(
            kernel="paged_decode_split_kernel", request=r, kv_head=h, split=0, iterations=(0, 0, 1)[: 3 - r],
            logical_blocks=(0, 1, 2)[: 3 - r], physical_blocks=(7, 2, 5)[: 3 - r], sm=3 * r + h, start_ns=100 * h,
            end_ns=900 + h,
        )
        for r in (0, 1) for h in range(8)
    ]  # fmt: skip
    header = {"schema": SCHEMA_VERSION, "device": "NVIDIA H200", "dtype": "bfloat16", "date": "2026-07-01T00:00:00",
              "config": {"num_blocks": 12, "block_size": 16}}  # fmt: skip
    lab = kernel_walk(save(Trace(header, spans), tmp_path / "spans.jsonl.gz"), head=1)
    lab.seek(3)
    marks = picture(lab.marks())
    assert marks["badge.text"].text == "recorded · NVIDIA H200 · bf16 · 2026-07-01"
    assert lab.title().startswith("Kernel, request 0, KV head 1, part 0, 3 of 3 blocks read. ")
    assert lab.title().endswith(" i=1 reads logical block 2: block #5")
    assert [marks[f"block.{b}.order"].text for b in (7, 2, 5)] == ["0", "1", "2"]
    assert marks["program.clock"].text == "ran on SM 1, from 100 to 901 ns"
    assert sum(id.startswith("sm.") and id[3:].isdigit() for id in marks) == 16
    assert not any(id.startswith(("address", "softmax")) for id in marks)
    lab.select("15")  # this program read only two blocks
    assert "2 of 2 blocks read" in lab.title() and lab.words()["question"] == ""
    ET.fromstring(lab.svg())
    with pytest.raises(PagedlabError, match="no program '16'"):
        lab.select("16")
    with pytest.raises(PagedlabError, match="no kernel spans"):
        kernel_walk(Trace(header, []))
