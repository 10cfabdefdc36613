"""The engine over WebGPU: what it promises beyond any executor (``tests/engine/test_executors.py``). Its tokens, K and
V are torch's own, a step is one submission, and what goes wrong is one sentence."""

import json
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from pagedlab import LLM, SamplingParams
from pagedlab.engine.last_query import last_query
from pagedlab.errors import PagedlabError
from pagedlab.executor.abstract import Draw, SamplingMetadata, ScheduledRequest
from pagedlab.kernels.wgsl.gpu import open_gpu
from pagedlab.kv.block_table import BlockTable
from pagedlab.parity import greedy

pytestmark = pytest.mark.usefixtures("gpu")
PROMPTS = [[5, 6, 7], list(range(40, 90)), [9] * 33, list(range(40, 80)) + [3, 4]]
GREEDY = SamplingParams(max_tokens=10, ignore_eos=True)


def both(dtype="float32", **knobs):
    """An engine on WebGPU, and one in torch."""
    knobs = {"num_gpu_blocks_override": 64, "block_size": 4, "max_model_len": 200, "record": True} | knobs
    return [LLM("tiny-random", device=device, dtype=dtype, **knobs) for device in ("webgpu", "cpu")]


def tokens(llm, prompts=PROMPTS, params=GREEDY):
    return [[answer.token_ids for answer in output.outputs] for output in llm.generate(prompts, params)]


def test_alone_and_in_a_batch_the_tokens_are_torchs_and_so_are_k_and_v():
    ours, torchs = both()
    wanted = tokens(torchs)
    assert tokens(ours) == wanted
    assert [tokens(ours, [prompt])[0] for prompt in PROMPTS] == wanted
    for layer in range(ours.executor.model_config.num_layers):
        for block in sorted(torchs.used_blocks)[:8]:
            for mine, theirs in zip(*(llm.executor.read_block(layer, block) for llm in (ours, torchs)), strict=True):
                assert mine.dtype == np.float32 and mine.shape == (4, 2, 16)
                assert np.abs(mine - theirs).max() < 1e-5


def test_a_prompt_longer_than_what_is_computed_at_a_time(monkeypatch):
    monkeypatch.setattr("pagedlab.executor.webgpu_executor.TOKENS_AT_A_TIME", 16)
    ours, torchs = both()
    assert tokens(ours) == tokens(torchs)


def test_a_snapshot_brings_everything_back_more_than_once():
    llm, _ = both()
    llm.add_request(PROMPTS[1], GREEDY)
    for _ in range(3):
        llm.step()
    kept = llm.snapshot()
    before = [llm.executor.read_block(1, block) for block in sorted(llm.used_blocks)]

    def rest():
        while llm.has_unfinished_requests():
            last = llm.step()
        return last[0].outputs[0].token_ids

    wanted = rest()
    for _ in range(2):
        llm.restore(kept)
        after = [llm.executor.read_block(1, block) for block in sorted(llm.used_blocks)]
        assert all(np.array_equal(a, b) for a, b in zip(np.array(before), np.array(after), strict=True))
        assert rest() == wanted


def table(block_ids, block_size=4):
    made = BlockTable(block_size)
    made.append(block_ids)
    return made


def request(ids, start, end, blocks):
    return ScheduledRequest("A", ids, start, end, table(blocks))


def test_batches_may_be_under_way_at_once_and_what_they_were_given_may_change():
    executor = both()[0].executor
    first = [request([5, 6, 7], 0, 3, [1]), request([8, 9], 0, 2, [2])]
    draws = SamplingMetadata([Draw(row, 3 - row, 0) for row in (0, 1)])
    alone = executor.collect(executor.submit(first, draws)).token_ids
    one = executor.submit(first, draws)
    two = executor.submit([request([1, 2, 3, 4], 0, 4, [3])], SamplingMetadata([Draw(0, 4, 0)]))
    first[0].token_ids[:] = [0, 0, 0]
    assert len(executor.collect(two).token_ids) == 1 and executor.collect(one).token_ids == alone


class Counted(TorchDispatchMode):
    """What torch computes inside."""

    def __init__(self):
        super().__init__()
        self.operations = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.operations.append(str(function))
        return function(*args, **(kwargs or {}))


def test_a_step_is_one_submission_and_one_look_at_what_came_back_and_torch_computes_nothing(monkeypatch):
    llm, _ = both()
    gpu, counts = llm.executor.gpu, Counter()
    for name, real in [(name, getattr(gpu, name)) for name in ("submission", "look_into", "read")]:

        def counted(*given, real=real, name=name):
            counts[name] += 1
            return real(*given)

        monkeypatch.setattr(gpu, name, counted)
    for prompt in PROMPTS:
        llm.add_request(prompt, GREEDY)
    steps = 0
    with Counted() as torchs:
        while llm.has_unfinished_requests():
            llm.step()
            steps += 1
    assert steps >= 10 and counts == {"submission": steps, "look_into": steps} and not torchs.operations


def test_logits_are_given_where_they_are_asked_for():
    ours, torchs = (llm.executor for llm in both())
    batch = [request([5, 6, 7], 0, 3, [1]), request([8, 9], 0, 2, [2])]
    wanted = SamplingMetadata([Draw(0, 3, 0)], logits=[1, 0])
    mine, theirs = (one.collect(one.submit(batch, wanted)) for one in (ours, torchs))
    assert mine.token_ids == theirs.token_ids and np.abs(mine.logits - theirs.logits).max() < 1e-4


def test_what_is_not_there_is_refused():
    executor = both()[0].executor
    for blocks, word in (([64], "There is no block 64; allowed are 0 to 63"), ([-1], "There is no block -1")):
        with pytest.raises(PagedlabError, match=word):
            executor.submit([request([5], 0, 1, blocks)], SamplingMetadata())
    with pytest.raises(PagedlabError, match="There is no layer 3"):
        executor.read_block(3, 0)
    with pytest.raises(PagedlabError, match="dtype is 'bfloat16'"):
        LLM("tiny-random", device="webgpu", dtype="bfloat16")


def test_the_environment_and_a_number_choose_it(monkeypatch):
    monkeypatch.setenv("PAGEDLAB_DEVICE", "webgpu")
    assert LLM("tiny-random", num_gpu_blocks_override=4).executor.describe()["attention_backend"] == "webgpu"
    assert LLM("tiny-random", num_gpu_blocks_override=4, device="webgpu:0").executor.gpu is open_gpu()
    with pytest.raises(PagedlabError, match=r"There is no WebGPU adapter 99; this machine has 0 \("):
        LLM("tiny-random", device="webgpu:99")
    with pytest.raises(PagedlabError, match="device is 'webgpu:x'; behind webgpu: stands the number of an adapter"):
        LLM("tiny-random", device="webgpu:x")


def test_it_says_what_it_is():
    llm = both()[0]
    header, info = llm.trace.header, llm.executor.gpu.info
    assert header["device"] == llm.executor.gpu.name and info["backend_type"] in header["device"]
    assert header["driver"] == info["description"]
    assert ("(software)" in header["device"]) == (info["adapter_type"] == "CPU")


def test_in_16_bits_it_serves_too():
    llm = both(dtype="float16")[0] if both()[0].executor.gpu.has_f16 else None
    if llm is None:
        pytest.skip("this machine's adapter has no numbers of 16 bits")
    assert all(len(answer) == 10 for (answer,) in tokens(llm))
    assert llm.trace.header["dtype"] == "float16"


@pytest.mark.slow
def test_smollm2_writes_the_golden_tokens_alone_and_in_a_batch(root):
    """The first ones of two lines: a program that does a GPU's work takes a second or two for each. (All of the file:
    ``PAGEDLAB_DEVICE=webgpu pagedlab parity tests/golden/smollm2/greedy.jsonl``.)"""
    path = root / "tests" / "golden" / "smollm2" / "greedy.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()[::3]]
    for line in lines:
        line |= {name: line[name][:5] for name in ("output_ids", "top2_gap")}
    assert greedy.compare(path, lines, device="webgpu", dtype="float32") is None


def test_what_attention_last_asked_for_is_torchs_and_asking_disturbs_nothing():
    ours, torchs = both()
    for llm in (ours, torchs):
        for prompt in PROMPTS[:2]:
            llm.add_request(prompt, GREEDY)
        for _ in range(3):
            llm.step()
    for layer in range(ours.executor.model_config.num_layers):
        for request in "AB":
            before = ours.kv_pool.data
            (mine, *places), (theirs, *same) = (last_query(llm, request, layer) for llm in (ours, torchs))
            assert places == same and mine.shape == theirs.shape and (mine - theirs).abs().max() < 1e-4
            assert torch.equal(ours.kv_pool.data, before)
    answers = []
    for llm in (ours, torchs):
        while llm.has_unfinished_requests():
            llm.step()
        answers.append([event.token_id for event in llm.trace.events if event.kind == "token_sampled"])
    assert answers[0] == answers[1]


def test_lessons_read_the_pool_as_if_it_were_torchs():
    pools = []
    for llm in both():
        tokens(llm, PROMPTS[:2])
        pools.append(llm.kv_pool)
    ours, torchs = pools
    for name in ("bytes_per_token", "bytes_per_block", "num_bytes", "num_blocks", "block_size", "num_layers", "dtype"):
        assert getattr(ours, name) == getattr(torchs, name)
    assert ours.data.shape == torchs.data.shape and ours.data.stride() == torchs.data.stride()
    assert (ours.data - torchs.data).abs().max() < 1e-5
    assert torch.equal(ours.layer(1).key, ours.data[1, 0]) and torch.equal(ours.layer(1).value, ours.data[1, 1])
    key, value = ours.read_block(1, 2)
    assert np.array_equal(key, ours.data[1, 0, 2]) and np.array_equal(value, ours.data[1, 1, 2])


def test_a_lost_device_is_one_sentence_and_the_next_engine_gets_another():
    """In a process of its own: this one's device is needed by the tests that follow."""
    done = subprocess.run([sys.executable, "-c", LOST], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    first, second, third = done.stdout.splitlines()
    assert first == second and " is lost, and with it all that lay in its memory" in first
    assert third == "[10]"


LOST = """
from pagedlab import LLM, SamplingParams
from pagedlab.errors import PagedlabError

params = SamplingParams(max_tokens=10, ignore_eos=True)
llm = LLM("tiny-random", device="webgpu", num_gpu_blocks_override=16)
llm.add_request([5, 6, 7], params)
llm.step()
llm.executor.gpu.device.destroy()
for ask in (llm.step, lambda: llm.executor.read_block(0, 1)):
    try:
        ask()
    except PagedlabError as error:
        print(str(error).partition(": ")[2])
llm = LLM("tiny-random", device="webgpu", num_gpu_blocks_override=16)
print([len(answer.outputs[0].token_ids) for answer in llm.generate([5, 6, 7], params)])
"""


def test_triton_can_be_imported_after_it_and_compiles(compiling):
    """In a process of its own, since Triton is in this one already: each brings an LLVM."""
    pytest.importorskip("triton", reason="no Triton on this machine; it is installed with the package on Linux")
    command = [sys.executable, "-c", THEN_TRITON]
    done = subprocess.run(command, env=compiling, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split() == ["3", "3", "ELF"]


THEN_TRITON = """
from pagedlab import LLM, SamplingParams

params = SamplingParams(max_tokens=3, ignore_eos=True)
llm = LLM("tiny-random", device="webgpu", num_gpu_blocks_override=16)
print(len(llm.generate([5, 6, 7], params)[0].outputs[0].token_ids))
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from pagedlab.kernels.ladder1_copy import copy_kernel

pointers = dict.fromkeys(("destination", "source"), "*fp32")
source = ASTSource(copy_kernel, {**pointers, "length": "i32", "PIECE": "constexpr"}, {"PIECE": 64})
compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32))
print(len(llm.generate([8, 9], params)[0].outputs[0].token_ids), compiled.asm["cubin"][1:4].decode())
"""
