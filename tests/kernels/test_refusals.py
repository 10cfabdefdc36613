"""What is refused before a launch, each with a sentence; and what Triton decided when it was imported."""

import subprocess
import sys

import pytest
import torch
from batches import Batch

from pagedlab.attention import paged_attention
from pagedlab.errors import PagedlabError
from pagedlab.kernels import interpreting
from pagedlab.kernels.launch import check_device, refuse
from pagedlab.kernels.tuning import splits_for


@pytest.mark.parametrize("wrong, sentence", [
    (dict(capability=70), "needs sm_75"),
    (dict(capability=75, dtype=torch.bfloat16), "use float16 or float32"),
    (dict(head_size=512), "multiples of 8 from 16 to 256"),
    (dict(head_size=60), "multiples of 8 from 16 to 256"),
    (dict(block_size=512), "take 1 to 256"),
    (dict(group=32), "groups of 1 to 16"),
])  # fmt: skip
def test_what_the_kernels_cannot_run_is_refused_with_a_sentence(wrong, sentence):
    right = dict(capability=90, dtype=torch.float16, head_size=128, block_size=16, group=4)
    refuse(**right)
    with pytest.raises(PagedlabError, match=sentence):
        refuse(**right | wrong)


def test_wrong_dtypes_strides_and_lengths_are_refused_with_the_triton_back_end_too():
    batch = Batch([20, 30], [1, 1])
    query, layer, tables, lengths, starts = batch.arguments
    for arguments in (
        (query.double(), layer, tables, lengths, starts),
        (query.transpose(1, 2).contiguous().transpose(1, 2), layer, tables, lengths, starts),
        (query, layer, tables.long(), lengths, starts),
        (query, layer, tables.T.contiguous().T, lengths, starts),
        (query, layer, tables, lengths + 999, starts),
    ):
        with pytest.raises(PagedlabError):
            paged_attention(*arguments, backend="triton")


def test_a_block_id_outside_the_pool_never_reaches_the_kernel_under_the_debug_flag(monkeypatch):
    monkeypatch.setenv("PAGEDLAB_DEBUG", "1")
    batch = Batch([20, 30], [1, 1])
    paged_attention(*batch.arguments, backend="triton")
    batch.block_tables[1, 1] = batch.layer.num_blocks
    with pytest.raises(PagedlabError, match="request 1, logical block 1: physical block"):
        paged_attention(*batch.arguments, backend="triton")


def test_a_slot_outside_the_pool_never_reaches_the_kernel_under_the_debug_flag(monkeypatch):
    monkeypatch.setenv("PAGEDLAB_DEBUG", "1")
    batch = Batch([20], [1])
    key = batch.keys[0][:1]
    with pytest.raises(PagedlabError, match="is outside the pool"):
        batch.layer.write(key, key, torch.tensor([batch.layer.num_blocks * 16]), backend="triton")


def test_changing_the_variable_after_triton_was_imported_is_noticed(monkeypatch):
    assert interpreting()
    monkeypatch.delenv("TRITON_INTERPRET")
    with pytest.raises(PagedlabError, match="Restart the kernel"):
        check_device(torch.device("cpu"))


def test_tritons_older_interpreter_with_a_newer_numpy_is_refused_with_what_to_install(monkeypatch):
    monkeypatch.setattr("numpy.__version__", "2.4.0")
    monkeypatch.setattr("triton.__version__", "3.6.0")
    with pytest.raises(PagedlabError, match="pip install 'numpy<2.4'"):
        interpreting()


@pytest.fixture
def in_a_new_process(compiling):
    """What Python prints that runs some code, with Triton as it comes."""

    def run(code):
        command = [sys.executable, "-c", code]
        return subprocess.run(command, env=compiling, capture_output=True, text=True, check=True).stdout

    return run


def test_choosing_the_interpreter_too_late_says_restart_the_kernel(in_a_new_process):
    out = in_a_new_process(
        "import triton\nfrom pagedlab.kernels import use_interpreter\n"
        "try: use_interpreter()\nexcept ValueError as error: print(error)"
    )
    assert "Triton was imported before" in out and "Restart the kernel" in out


def test_cpu_tensors_without_the_interpreter_are_refused_and_with_it_the_kernel_runs(in_a_new_process):
    lines = (
        "import torch", "from pagedlab.attention import KVPool, paged_attention", "layer = KVPool(1, 2, 16, 1, "
        "32).layer(0)",
        "one = lambda *x: torch.tensor(x, dtype=torch.int32)",
        "arguments = torch.zeros(1, 1, 32), layer, one(1)[None], one(3), one(0, 1)",
        "try: print(paged_attention(*arguments, backend='triton').shape)", "except ValueError as error: print(error)",
    )  # fmt: skip
    code = "\n".join(lines)
    refused = in_a_new_process(code)
    assert "Use backend='torch'" in refused and "use_interpreter()" in refused
    assert "[1, 1, 32]" in in_a_new_process("from pagedlab.kernels import use_interpreter; use_interpreter()\n" + code)


def test_contexts_are_split_where_programs_are_few_and_not_where_they_are_many():
    assert splits_for(programs=512, max_context=4096, tile=64, processors=132) == 1
    assert splits_for(programs=8, max_context=32768, tile=64, processors=132) == 64
    assert splits_for(programs=64, max_context=32768, tile=64, processors=132) == 8
    assert splits_for(programs=8, max_context=128, tile=64, processors=132) == 1
