"""The plain kernel in Triton and in WGSL: both over the same memory, and the kernel lab that shows it."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch

from pagedlab import kernels
from pagedlab.attention import LayerKV, diary, interpreted
from pagedlab.engine.last_query import last_query
from pagedlab.errors import PagedlabError
from pagedlab.kernels.wgsl import gpu as wgsl
from pagedlab.trace import Trace
from pagedlab.viz import kernel_walk
from pagedlab.viz.kernel.lab import KernelLab
from pagedlab.viz.kit.marks import picture

needs_triton = pytest.mark.skipif(not kernels.available(), reason=kernels.WHY_NOT)


@pytest.fixture(scope="module")
def on_webgpu(gpu, out_of_order):
    """Gives an engine that computes in this dtype."""

    @cache
    def on_webgpu(dtype):
        if dtype == "float16" and not gpu.has_f16:
            pytest.skip("this machine's adapter has no numbers of 16 bits")
        return out_of_order(device="webgpu", dtype=dtype)

    return on_webgpu


@pytest.fixture(scope="module")
def both(gpu, out_of_order):
    """The lab of an engine on the CPU, and that engine."""
    llm = out_of_order(device="cpu")
    return kernel_walk(llm, "B", layer=1, dialects=True), llm


def by_hand(llm, layer):
    """Of each query head and block in order, from what the executor says is in its pool: running maximum and sum."""
    query, blocks, context = last_query(llm, "B", layer)
    keys = np.concatenate([llm.executor.read_block(layer, block)[0] for block in blocks])[:context].astype(np.float64)
    for head, q in enumerate(query.numpy().astype(np.float64)):
        scores = keys[:, head * keys.shape[1] // len(query)] @ q * len(q) ** -0.5
        yield [(scores[:end].max(), np.exp(scores[:end] - scores[:end].max()).sum())
               for end in (min(4 * i + 4, context) for i in range(len(blocks)))]  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_on_webgpu_the_lab_steps_the_kernel_over_the_engines_own_buffers(gpu, on_webgpu, dtype, monkeypatch):
    monkeypatch.setattr(interpreted, "available", lambda: False)  # Triton has no part in it
    llm = on_webgpu(dtype)
    lab = kernel_walk(llm, "B", layer=1)
    table, size = llm.tables["B"].block_ids, np.dtype(dtype).itemsize
    assert [[physical for _, _, physical in span] for span in lab.walk.spans] == [table, table]
    for head, expected in enumerate(by_hand(llm, 1)):
        rows = [row[1:3] for row in lab.walk.rows[head]]
        assert np.allclose(rows, expected, rtol=1e-5, atol=1e-5)
        for block, element, *_ in lab.walk.diaries[0].lines[head]:
            there = np.frombuffer(gpu.read(llm.kv_pool.buffers[1][0], 16 * size, element * size), dtype)
            assert np.array_equal(there, llm.executor.read_block(1, block)[0][0, head // 2])
    assert lab.walk.difference < 1e-5
    lab.seek(6)
    marks = picture(lab.marks())
    assert marks["badge.text"].text == f"live · {gpu.name}"
    assert marks["address.5.number"].text == f"{table[5] * 128 * size:,}" and "WGSL" in marks["softmax.what"].text


@needs_triton
def test_both_dialects_read_the_same_places_and_know_the_same_after_each_block(gpu, both):
    lab, llm = both
    triton, in_wgsl = lab.walk.diaries
    assert (triton.where, in_wgsl.where) == (kernels.INTERPRETER, gpu.name)
    for head, expected in enumerate(by_hand(llm, 1)):
        for one in (triton, in_wgsl):
            places = [(block, 128 * block + 16 * (head // 2)) for block in llm.tables["B"].block_ids]
            assert [line[:2] for line in one.lines[head]] == places
            assert np.allclose([line[2:] for line in one.lines[head]], expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(triton.output, in_wgsl.output, rtol=1e-5, atol=1e-5)


@needs_triton
def test_the_lab_shows_what_each_wrote_and_whether_it_is_equal(both):
    lab = both[0]
    lab.seek(6)
    marks = picture(lab.marks())
    for i, line in enumerate(lab.walk.diaries[0].lines[0]):
        if i == 0:
            continue  # five rows are shown
        for dialect in ("Triton", "WGSL"):
            cells = [marks[f"softmax.{i}.{dialect}.{part}"].text for part in range(4)]
            assert cells[:2] == [f"#{line[0]}", f"{4 * line[1]:,}"]
            assert [float(cell) for cell in cells[2:]] == pytest.approx(line[2:], abs=1e-4)
        assert marks[f"softmax.{i}.same"].text == "equal" and "alarm" not in marks[f"softmax.{i}.far"].cls
    assert "are the same to within 0.000000" in marks["softmax.outputs"].text
    assert f"WGSL   #{lab.walk.diaries[1].lines[0][5][0]} " in lab.text()


@needs_triton
def test_a_difference_is_not_called_equal(both):
    walk = both[0].walk
    triton, in_wgsl = walk.diaries
    block, element, largest, total = in_wgsl.lines[0][5]
    for line, where, alarm in (
        ((block, element + 1, largest, total), "same", "not equal"),
        ((block, element, largest, total + 0.01), "far", "0.01: not rounding"),
    ):
        lines = [[*in_wgsl.lines[0][:5], line], *in_wgsl.lines[1:]]
        lab = KernelLab(replace(walk, diaries=(triton, replace(in_wgsl, lines=lines))))
        lab.seek(6)
        mark = picture(lab.marks())[f"softmax.5.{where}"]
        assert mark.text == alarm and "alarm" in mark.cls


@needs_triton
@pytest.mark.slow
def test_an_engine_on_webgpu_shows_both_in_16_bits_too(on_webgpu):
    lab = kernel_walk(on_webgpu("float16"), "B", dialects=True)
    for ours, theirs in zip(*(one.lines for one in lab.walk.diaries), strict=True):
        assert [line[:2] for line in ours] == [line[:2] for line in theirs]
        assert np.allclose([line[2:] for line in ours], [line[2:] for line in theirs], rtol=1e-5, atol=1e-5)


def test_a_dialect_that_cannot_run_is_one_sentence(gpu, on_webgpu, out_of_order, monkeypatch):
    numbers = torch.zeros(2, 4, 2, 16, dtype=torch.bfloat16)
    with pytest.raises(PagedlabError, match="K and V are bfloat16; WGSL on .* has float32"):
        diary.by_wgsl(torch.zeros(4, 16), LayerKV(numbers, numbers), [1], 3, 0.25)
    with pytest.raises(PagedlabError, match="A trace holds no K and V"):
        kernel_walk(Trace({}, []), dialects=True)
    monkeypatch.setattr(interpreted, "available", lambda: False)
    with pytest.raises(PagedlabError, match="so a kernel in Triton cannot run here"):
        kernel_walk(on_webgpu("float32"), "B", dialects=True)
    monkeypatch.setattr(wgsl, "adapters", lambda: [])
    monkeypatch.setattr(wgsl, "_open", wgsl._open.__wrapped__)
    with pytest.raises(PagedlabError, match="There is no WebGPU adapter on this machine"):
        kernel_walk(out_of_order(device="cpu"), "B", dialects=True)
