"""Which GPU does work start on? No test here has two; what is held is that everything goes the one way that asks."""

import ast
import contextlib
from pathlib import Path

import pytest
import torch
from batches import Batch

from pagedlab.attention import KVPool, paged_attention
from pagedlab.engine import LLM
from pagedlab.errors import PagedlabError
from pagedlab.kernels import (
    ladder1_copy,
    ladder2_gather,
    ladder3_dot,
    ladder4_softmax,
    ladder5_decode,
    launch,
    move_blocks,
    run,
    rungs,
)

ROOT = Path(__file__).parents[2]
OURS = [path for folder in ("kernels", "pagedlab") for path in sorted((ROOT / folder).rglob("*.py"))]
# Functions of torch.cuda that speak of no device, or make one the current one, or ask which is.
OF_NO_DEVICE = {"is_available", "device_count", "empty_cache", "Event", "CUDAGraph", "graph", "device", "device_of",
                "current_device"}  # fmt: skip


def calls(path):
    return [node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Call)]


def test_no_kernel_is_launched_but_through_the_function_that_chooses_the_gpu():
    """A launch looks like `kernel[grid](...)`."""
    found = {path.relative_to(ROOT).as_posix(): len([c for c in calls(path) if isinstance(c.func, ast.Subscript)])
             for path in OURS}  # fmt: skip
    launches = {path: count for path, count in found.items() if count and path.startswith("kernels/")}
    assert launches == {"kernels/launch.py": 1}
    for path, count in found.items():
        if count and path not in launches:
            assert "triton.jit" not in (ROOT / path).read_text("utf-8"), path


def test_every_function_of_torch_cuda_is_told_the_device():
    wrong = []
    for path in OURS:
        for call in calls(path):
            name = ast.unparse(call.func)
            if name.startswith(("torch.cuda.", "cuda.")) and name.rpartition(".")[2] not in OF_NO_DEVICE:
                if not call.args and not call.keywords:
                    wrong.append(f"{path.relative_to(ROOT)}:{call.lineno}: {name}()")
    assert not wrong


@pytest.fixture
def chosen(monkeypatch):
    """The tensors whose device was made the current one, in their order."""
    tensors = []

    def device_of(tensor):
        assert isinstance(tensor, torch.Tensor)
        tensors.append(tensor)
        return contextlib.nullcontext()

    monkeypatch.setattr(torch.cuda, "device_of", device_of)
    return tensors


def test_every_kernel_starts_on_the_device_of_what_it_writes(chosen):
    batch = Batch([40, 20], [1, 1])
    query, layer, tables, lengths, starts = batch.arguments
    data = KVPool(2, 4, 16, 2, 64).data
    one = layer.key[:, :, 0]
    runs = [
        lambda: ladder1_copy.copy(torch.arange(5)),
        lambda: ladder2_gather.gather(one, tables[0], 40),
        lambda: ladder3_dot.scores(query[0, 0], one, tables[0], 40, 0.1),
        lambda: ladder4_softmax.online_softmax(torch.rand(9)),
        lambda: ladder5_decode.decode(query, layer, tables, lengths, 0.1),
        lambda: paged_attention(*batch.arguments, backend="triton"),
        lambda: run.decode(*batch.arguments, 0.1, splits=2),
        lambda: paged_attention(*Batch([40], [3]).arguments, backend="triton"),
        lambda: layer.write(query[:, :2], query[:, :2], torch.tensor([0, 5]), backend="triton"),
        lambda: move_blocks.copy_blocks(data, [(0, 1)]),
        lambda: move_blocks.scatter_blocks(data, torch.tensor([2]), move_blocks.gather_blocks(data, torch.tensor([1]))),
        *(lambda rung=rung: rung.run(*batch.arguments, 0.1) for rung in rungs.RUNGS),
    ]
    for launches, work in zip([1, 1, 1, 1, 1, 1, 2, 1, 1, 1, 2, 1, 1, 1, 1, 1, 2], runs, strict=True):
        del chosen[:]
        work()
        assert len(chosen) == launches


def test_a_step_of_the_engine_runs_with_its_own_device_as_the_current_one(chosen):
    """So that a kernel in a learner's part, which knows no better than the current device, starts there too."""
    llm = LLM("tiny-random", num_gpu_blocks_override=8)
    llm.add_request([1, 2, 3])
    llm.step()
    assert chosen and chosen[0] is llm.kv_pool.data


def test_a_grid_that_no_gpu_takes_is_refused_before_the_launch(chosen):
    one = torch.zeros(1)
    with pytest.raises(PagedlabError, match=r"8 x 65,536 programs cannot be launched: .* Cut the batch"):
        launch.launch(None, (8, 65_536), one)
    launch.launch({(65_536 * 9, 65_535): lambda *arguments: None}, (65_536 * 9, 65_535), one)
    assert len(chosen) == 1


def test_every_copy_that_nobody_waits_for_is_known():
    """Whoever starts another has to say what keeps its memory from being used again too early."""
    found = set()
    for path in OURS:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef):
                words = {k.arg for c in ast.walk(node) if isinstance(c, ast.Call) for k in c.keywords}
                found |= {f"{path.relative_to(ROOT).as_posix()}: {node.name}"} if "non_blocking" in words else set()
    assert found == {
        "pagedlab/executor/buffers.py: copy",  # under `with copies:`
        # From memory that torch itself pins, and gives to nobody else before the copy is over:
        "pagedlab/executor/fetch.py: to_device_of",
        "pagedlab/executor/fetch.py: fetch",  # into memory that its caller holds, and reads after the copy's event
        "pagedlab/bench/preemption.py: one_by_one",  # there and back on one stream, timed to the end
    }
