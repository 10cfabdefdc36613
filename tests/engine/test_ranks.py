"""One engine over several processes: the same tokens, a share of the bytes each, and no process that is left behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from pagedlab.engine import LLM, SamplingParams
from pagedlab.engine.last_query import last_query
from pagedlab.errors import PagedlabError
from pagedlab.executor import Draw, SamplingMetadata, ScheduledRequest
from pagedlab.kv.block_table import BlockTable
from pagedlab.model.config import LlamaConfig
from pagedlab.model.export import save_hf_folder
from pagedlab.model.llama import LlamaModel
from pagedlab.model.split import ALONE, Split, allowed_sizes
from pagedlab.model.tokenizer import byte_tokenizer
from pagedlab.model.weights import RandomModel, fill, source_of, weight_slots
from pagedlab.parity import compare_file

PARAMS = SamplingParams(max_tokens=10, ignore_eos=True)
PROMPTS = [[(11 * i + 7 * j) % 250 for i in range(5 + 6 * j)] for j in range(4)]
SMALL = {"num_gpu_blocks_override": 64, "block_size": 4}
WITHIN = 10.0  # seconds after an accident, all is over


def tokens(outputs) -> list[list[int]]:
    return [output.outputs[0].token_ids for output in outputs]


def is_alive(pid: int) -> bool:
    """A process that has ended and was not waited for is a zombie, and no orphan."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def gone(pids: list[int], within: float = WITHIN) -> bool:
    end = time.monotonic() + within
    while any(map(is_alive, pids)) and time.monotonic() < end:
        time.sleep(0.05)
    return not any(map(is_alive, pids))


def children() -> set[int]:
    """Of this process, those that have ended and were not waited for among them."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if stat.read_text().rpartition(")")[2].split()[1] == str(os.getpid()):
                found.add(int(stat.parent.name))
    return found


pytestmark = pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="this system does not list a process's children"
)

# ----------------------------------------------------------------------------------------------------- SmolLM2, 1 and 3


@pytest.fixture(scope="module")
def one() -> LLM:
    return LLM("smollm2", device="cpu", dtype="float32", **SMALL)


@pytest.fixture(scope="module")
def three():
    llm = LLM("smollm2", device="cpu", dtype="float32", tensor_parallel_size=3, record=True, **SMALL)
    yield llm
    pids = llm.executor.pids[1:]
    llm.close()
    assert gone(pids, 0), "close() waits for them"


def test_each_of_three_ranks_holds_a_third_of_the_weights_and_of_every_block(one, three):
    whole, executor = one.executor.model, three.executor
    norms = (2 * 30 + 1) * 576 * 4  # which each rank has whole
    assert executor.weight_bytes == [(whole.num_bytes - norms) // 3 + norms] * 3
    assert executor.pool_bytes == [one.executor.kv_pool.data.nbytes // 3] * 3
    assert three.pool_budget.bytes_per_block * 3 == one.pool_budget.bytes_per_block
    assert three.pool_budget.weights == executor.weight_bytes[0]
    assert len(set(executor.pids)) == 3 and executor.pids[0] == os.getpid()
    assert three.config.tensor_parallel_size == three.trace.header["config"]["tensor_parallel_size"] == 3
    assert one.config.tensor_parallel_size == 1


def test_three_ranks_draw_one_processs_tokens_from_nearly_its_logits(one, three):
    engines = [LLM(base, **SMALL) for base in (one, three)]
    answers = [tokens(llm.generate(["The capital of France is", "One, two, three,"], PARAMS)) for llm in engines]
    assert answers[0] == answers[1]
    batch = [ScheduledRequest("A", list(range(100, 130)), 0, 30, BlockTable(4, range(1, 9)))]
    logits = []
    for llm in engines:
        handle = llm.executor.submit(batch, SamplingMetadata([Draw(0, 30, seed=0)], logits=[0]))
        logits.append(np.asarray(llm.executor.collect(handle).logits))
    assert logits[0].shape == logits[1].shape == (1, 49152)
    assert 0 < np.abs(logits[0] - logits[1]).max() < 1e-3, "the sums are added in another order, and no more"
    for layer in (0, 29):
        for block in (1, 3):
            for ours, theirs in zip(*(llm.executor.read_block(layer, block) for llm in engines), strict=True):
                assert ours.shape == (4, 3, 64)
                np.testing.assert_allclose(ours, theirs, atol=1e-3)


def test_what_a_step_sends_is_two_sums_a_layer_and_one_gather(three):
    llm = LLM(three, **SMALL)
    llm.add_request([1, 2, 3, 4, 5], PARAMS)
    llm.step()
    llm.executor.traffic()
    llm.step()
    for sent in llm.executor.traffic():
        assert (sent["all_reduce"].calls, sent["all_gather"].calls) == (1 + 2 * 30, 1)
        assert sent["all_reduce"].bytes == (1 + 2 * 30) * 576 * 4 * 2, "one token's vector to two others"
        assert sent["all_gather"].bytes == 49152 // 3 * 4 * 2
        assert sent["all_reduce"].seconds > 0
    assert llm.executor.traffic() == [{}] * 3


@pytest.mark.slow
def test_parity_over_three_ranks_finds_the_continuations_of_transformers(root, tmp_path):
    golden = root / "tests" / "golden" / "smollm2" / "greedy.jsonl"
    path = tmp_path / "half.jsonl"  # a step over three processes takes its time
    path.write_text("".join(golden.read_text().splitlines(keepends=True)[::2]))
    what, difference = compare_file(path, tensor_parallel_size=3)
    assert difference is None and what.endswith("over 3 ranks")


def test_only_a_number_over_which_heads_and_neurons_come_out_even_is_taken():
    assert allowed_sizes(source_of("smollm2")[1]) == [1, 3]
    for size in (2, 9):
        with pytest.raises(PagedlabError, match=f"is {size}; SmolLM2.* 9 query heads, 3 KV heads and 1,536 .*: 1, 3"):
            LLM("smollm2", device="cpu", tensor_parallel_size=size)
    for wrong in (0, 1.5, True, "3"):
        with pytest.raises(PagedlabError, match="tensor_parallel_size is"):
            LLM("tiny-random", device="cpu", tensor_parallel_size=wrong)
    with pytest.raises(PagedlabError, match="^dtype is <"):  # which cannot be sent to another rank
        LLM("tiny-random", device="cpu", dtype=lambda: None, tensor_parallel_size=2)
    for device in ("webgpu", "counting", "cpu:0"):
        with pytest.raises(PagedlabError, match=f"tensor_parallel_size is 2 and device '{device}'"):
            LLM("tiny-random", device=device, tensor_parallel_size=2)


def test_the_engine_keeps_its_number_of_ranks(three, one):
    llm = LLM(three, record=True, **SMALL)
    llm.generate([5, 6, 7], PARAMS)
    assert llm.rerun(3).config.tensor_parallel_size == 3
    with pytest.raises(PagedlabError, match="is 1, and these weights lie in 3 processes"):
        llm.rerun(3, tensor_parallel_size=1)
    with pytest.raises(PagedlabError, match="is 3, and these weights lie in 1 process"):
        LLM(one, tensor_parallel_size=3, **SMALL)


# -------------------------------------------------------------------------------------------------- the split itself


def shape(**sizes) -> LlamaConfig:
    return LlamaConfig(**{
        "name": "odd", "vocab_size": 259, "hidden_size": 32, "intermediate_size": 48, "num_layers": 2,
        "num_query_heads": 8, "num_kv_heads": 2, "head_size": 8, "rope_theta": 1e4, "rms_norm_eps": 1e-5,
        "max_model_len": 128, "tie_word_embeddings": False,
    } | sizes)  # fmt: skip


class Part:
    """A rank's group that was never joined: enough to hold a part."""

    def __init__(self, rank: int, size: int) -> None:
        self.split = Split(rank, size)


@pytest.mark.parametrize("config", [shape(), shape(qkv_bias=True), shape(tie_word_embeddings=True)], ids=lambda c: "")
@pytest.mark.parametrize("size", [2, 4, 8])
def test_the_parts_of_all_ranks_are_the_whole_and_kv_heads_are_copied(config, size):
    whole = LlamaModel(config)
    source = dict(RandomModel(config, 0).tensors())
    source = {name: torch.randn_like(values) for name, values in source.items()}
    if config.tie_word_embeddings:
        source.pop("lm_head.weight", None)
    fill(whole, source.items())
    parts = [LlamaModel(config, group=Part(rank, size)) for rank in range(size)]
    for part in parts:
        fill(part, source.items(), config)
    copies = max(1, size // 2)
    for name, values in weight_slots(whole).items():
        kind, slots = name.split(".")[-2], [weight_slots(part)[name] for part in parts]
        if kind.endswith("norm") or "layernorm" in kind:
            assert all(torch.equal(slot, values) for slot in slots), name
            continue
        if kind in ("k_proj", "v_proj"):
            for rank, slot in enumerate(slots):
                assert torch.equal(slot, slots[rank // copies * copies]), "neighbours have one head"
            slots = slots[::copies]
        together = torch.cat(slots, dim=1 if kind in ("o_proj", "down_proj") else 0)
        assert torch.equal(together[: len(values)], values), name
        assert not together[len(values) :].any(), "no token's"
    assert ALONE.split.config(config) == config


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [{"qkv_bias": True}, {"tie_word_embeddings": True}, {"windows": (None, 16)}], ids=str)
def test_a_folder_is_split_over_more_ranks_than_it_has_kv_heads(tmp_path, sizes):
    config = shape(**sizes)
    model = LlamaModel(config)
    generator = torch.Generator().manual_seed(1)
    noise = lambda values: torch.randn(values.shape, generator=generator) * 0.3  # noqa: E731
    fill(model, {name: noise(values) for name, values in RandomModel(config, 0).tensors()}.items())
    save_hf_folder(model, byte_tokenizer(), tmp_path / "odd")
    one = LLM(str(tmp_path / "odd"), device="cpu", **SMALL)
    four = LLM(str(tmp_path / "odd"), device="cpu", tensor_parallel_size=4, **SMALL)
    assert tokens(four.generate(PROMPTS, PARAMS)) == tokens(one.generate(PROMPTS, PARAMS))
    assert four.executor.pool_bytes == [one.executor.kv_pool.data.nbytes // 2] * 4, "two ranks have a copy of each head"
    for llm in (one, four):
        llm.add_request(PROMPTS[1], PARAMS, request_id="X")
        llm.step()
    for layer in range(2):
        (ours, blocks, context), (theirs, *same) = (last_query(llm, "X", layer) for llm in (four, one))
        assert (blocks, context) == tuple(same) and ours.shape == (8, 8)
        torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=0)
        for pair in zip(*(llm.executor.read_block(layer, blocks[0]) for llm in (one, four)), strict=True):
            np.testing.assert_allclose(*pair, atol=1e-4)
    four.close()


# ------------------------------------------------------------------------------------------ two ranks of a tiny model


@pytest.fixture(scope="module")
def two():
    llm = LLM("tiny-random", device="cpu", tensor_parallel_size=2, **SMALL)
    yield llm
    llm.close()


def test_batch_invariant_is_kept_over_ranks(two):
    knobs = {"batch_invariant": True, "num_gpu_blocks_override": 64, "block_size": 16}

    def logits(chunks, beside):
        executor = LLM(two, max_num_batched_tokens=400, **knobs).executor
        for start, end in chunks:
            batch = [ScheduledRequest("A", list(range(60)), start, end, BlockTable(16, range(1, 5)))]
            batch += [ScheduledRequest(str(b), [b] * 9, 0, 9, BlockTable(16, [9 + b])) for b in range(beside)]
            handle = executor.submit(batch, SamplingMetadata([], logits=[0]))
        return np.asarray(executor.collect(handle).logits)

    alone = logits([(0, 60)], 0)
    assert np.array_equal(alone, logits([(0, 60)], 5)) and np.array_equal(alone, logits([(0, 7), (7, 31), (31, 60)], 3))


def test_a_learners_table_stays_in_rank_0_and_its_numbers_count(two):
    class OffByOneBlock(BlockTable):
        """Not to be had in another process."""

        def slot_mapping(self, start, end):
            return [(slot + 4) % 256 for slot in super().slot_mapping(start, end)]

    wrong = LLM(two, block_table=OffByOneBlock, **SMALL)
    assert tokens(wrong.generate(PROMPTS, PARAMS)) != tokens(LLM(two, **SMALL).generate(PROMPTS, PARAMS))


def test_what_is_wrong_is_refused_before_the_others_hear_of_it(two):
    llm = LLM(two, **SMALL)
    outside = ScheduledRequest("A", [1, 2], 0, 2, BlockTable(4, [64]))
    unknown = ScheduledRequest("A", [1, 2], 0, 3, BlockTable(4, [1]))
    right = ScheduledRequest("A", [1, 2], 0, 2, BlockTable(4, [1]))
    for batch, sampling, words in (
        ([outside], SamplingMetadata(), "slot"),
        ([unknown], SamplingMetadata(), "the batch before drew 0"),
        ([right], SamplingMetadata([Draw(1, 2, seed=0)]), "There is no row 1; the batch has 1"),
    ):
        with pytest.raises(PagedlabError, match=words):
            llm.executor.submit(batch, sampling)
    for place in ((3, 1), (0, 64), (0, "1")):
        with pytest.raises(PagedlabError, match="^(?!Rank )"):
            llm.executor.read_block(*place)
    with pytest.raises(PagedlabError, match="There is no block|not in the pool|block"):
        llm.executor.copy_blocks([(1, 99)])
    with pytest.raises(PagedlabError, match="No room for a KV pool"):
        LLM(two, device_memory=1 << 16)
    assert tokens(llm.generate(PROMPTS, PARAMS)) == tokens(LLM(two, **SMALL).generate(PROMPTS, PARAMS))
    llm.close()
    llm.close()
    with pytest.raises(PagedlabError, match="was closed"):
        llm.generate(PROMPTS[0], PARAMS)
    assert LLM(two, **SMALL).generate(PROMPTS[0], PARAMS), "others on its weights go on"


def test_snapshots_of_all_ranks_are_let_go_with_their_handle(two):
    llm = LLM(two, record=True, **SMALL)
    llm.add_request(PROMPTS[2], PARAMS)
    llm.step()
    snapshot = llm.snapshot()
    own = llm.executor._own
    assert snapshot.stored.name in own._kept
    name = snapshot.stored.name
    del snapshot
    llm.step()
    assert name not in own._kept


def test_an_engine_that_nobody_has_any_more_ends_its_ranks():
    llm = LLM("tiny-random", device="cpu", tensor_parallel_size=2, **SMALL)
    pids = llm.executor.pids[1:]
    assert all(map(is_alive, pids))
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    assert handlers[0] is signal.default_int_handler
    assert set(handlers[1:]) <= {signal.SIG_DFL, signal.SIG_IGN}  # the latter under nohup
    del llm
    import gc

    gc.collect()
    assert gone(pids)


def test_an_engine_that_cannot_be_made_leaves_no_rank(tmp_path):
    folder = tmp_path / "half"
    save_hf_folder(LlamaModel(shape()), byte_tokenizer(), folder)
    (folder / "model.safetensors").unlink()
    before = children()
    with pytest.raises(PagedlabError, match="has no .*safetensors") as kept:  # as a notebook keeps the last error
        LLM(str(folder), device="cpu", tensor_parallel_size=2, **SMALL)
    assert not children() - before, kept.value  # one of the test before may be waited for only now


# -------------------------------------------------------------------------------------------------------- accidents

SCRIPT = """
import os, sys, time
from pagedlab.engine import LLM, SamplingParams
from pagedlab.errors import PagedlabError
llm = LLM("tiny-random", device="cpu", tensor_parallel_size={size}, num_gpu_blocks_override=4096)
print(*llm.executor.pids, flush=True)
params = SamplingParams(max_tokens=60, ignore_eos=True)
{then}
"""
FOREVER = """
while True:
    llm.generate([[n, 2, 3] for n in range(6)], params)
"""
SAYS = """
try:
    while True:
        llm.generate([[n, 2, 3] for n in range(6)], params)
except PagedlabError as error:
    print("SENTENCE", error, flush=True)
try:
    llm.generate([1], params)
except PagedlabError as error:
    print("AGAIN", error, flush=True)
"""


@pytest.fixture(autouse=True)
def nothing_is_left():
    """Of scripts whose test failed while they ran."""
    yield
    while _started:
        with contextlib.suppress(ProcessLookupError):
            _started.pop().kill()


_started: list[subprocess.Popen] = []


def started(tmp_path: Path, then: str, size: int = 2, launcher: tuple[str, ...] = (), **how) -> tuple:
    """The process, and the ids of all ranks, once they run."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(size=size, then=then))
    command = [sys.executable, *launcher, str(script)]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, start_new_session=True, **how)
    _started.append(process)
    pids = [int(word) for word in process.stdout.readline().split()]
    if len(pids) != size:
        process.kill()
        pytest.fail(f"{pids}\n{process.communicate()}")
    time.sleep(1)  # in the middle of its steps
    return process, pids


@pytest.mark.slow
def test_a_rank_that_is_killed_ends_the_run_with_a_sentence(tmp_path):
    process, pids = started(tmp_path, SAYS, size=4)
    os.kill(pids[2], signal.SIGKILL)
    since = time.monotonic()
    out, err = process.communicate(timeout=60)
    assert time.monotonic() - since < WITHIN and gone(pids, 1)
    assert out.startswith("SENTENCE Rank 2 of this engine ended (killed by SIGKILL), and no rank can go on"), (out, err)
    assert out.count("\n") == 2 and "AGAIN Rank 2" in out
    assert (process.returncode, err) == (0, "")


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGRTMIN"), reason="this system has no real-time signals")
def test_a_signal_without_a_name_is_a_number():
    llm = LLM("tiny-random", device="cpu", tensor_parallel_size=2, **SMALL)
    number = signal.SIGRTMIN + 1
    os.kill(llm.executor.pids[1], number)
    with pytest.raises(PagedlabError, match=f"Rank 1 of this engine ended .killed by signal {number}.,"):
        llm.executor._ranks.run(time.sleep, WITHIN)


@pytest.mark.slow
def test_without_rank_0_the_others_end(tmp_path):
    process, pids = started(tmp_path, FOREVER, size=4)
    process.kill()
    assert gone(pids) and process.communicate(timeout=10)[1] == ""


@pytest.mark.slow
@pytest.mark.parametrize("then", [FOREVER, "time.sleep(1000)"], ids=["busy", "idle"])
def test_ctrl_c_ends_all(tmp_path, then):
    process, pids = started(tmp_path, then)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert gone(pids, 1)
    assert err.count("Traceback") == 1 and err.strip().endswith("KeyboardInterrupt"), err


@pytest.mark.slow
def test_an_engine_that_goes_as_the_script_ends_ends_with_it(tmp_path):
    """As with a function at whose end both end: another thread is still letting the ranks go."""
    process, pids = started(tmp_path, "llm.generate([1, 2], params)\ndel llm")
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (0, "", "") and gone(pids, 0)


@pytest.mark.slow
def test_after_ctrl_c_in_close_the_ranks_are_gone(tmp_path):
    then = """
import signal, threading
busy = threading.Thread(target=llm.executor._ranks.run, args=(time.sleep, 2))
busy.start()
threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    llm.close()
except KeyboardInterrupt:
    print(*(process.proc.poll() for process in llm.executor._ranks.others.processes), flush=True)
"""
    process, pids = started(tmp_path, then)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (0, "0\n", "") and gone(pids, 0)


@pytest.mark.slow
def test_after_ctrl_c_that_was_caught_the_engine_goes_on(tmp_path):
    then = """
def answer():
    return [output.outputs[0].token_ids for output in llm.generate([[n, 2, 3] for n in range(6)], params)]
expected = answer()
for _ in range(3):
    try:
        print("now", flush=True)
        while True:
            answer()
    except KeyboardInterrupt:
        print(answer() == expected, flush=True)
"""
    process, pids = started(tmp_path, then)
    for wait in (0.31, 0.52, 0.73):
        assert process.stdout.readline() == "now\n"
        time.sleep(wait)
        os.kill(process.pid, signal.SIGINT)
        assert process.stdout.readline() == "True\n"
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (0, "", "") and gone(pids, 0)


@pytest.mark.slow
def test_a_forked_child_leaves_the_ranks_alone(tmp_path):
    then = """
import gc
child = os.fork()
if child == 0:
    try:
        llm.generate([1, 2], params)
    except PagedlabError as error:
        print("CHILD", error, flush=True)
    llm.close()
    del llm
    gc.collect()
    sys.exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), len(llm.generate([1, 2], params)), flush=True)
"""
    process, pids = started(tmp_path, then)
    out, err = process.communicate(timeout=60)
    assert out.splitlines() == ["CHILD This engine belongs to the process that made it; make another one here.", "7 1"]
    assert (process.returncode, err) == (0, "") and gone(pids, 0)


@pytest.mark.slow
def test_a_rank_that_does_not_come_is_named(tmp_path):
    code = (
        "import sys; sys.executable = '/bin/false'\nfrom pagedlab.engine import LLM\n"
        "LLM('tiny-random', device='cpu', tensor_parallel_size=2)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stderr.strip().splitlines()[-1].startswith(
        "pagedlab.errors.PagedlabError: Rank 1 of this engine ended (exit status 1)"
    ), done.stderr


# --------------------------------------------------------------------------------------------------------- torchrun

TORCHRUN = ("-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-addr", "127.0.0.1", "--master-port")
ONCE = """
print(len(llm.generate([[n, 2, 3] for n in range(6)], params)), flush=True)
again = LLM(llm, num_gpu_blocks_override=64)
other = LLM("tiny-random", device="cpu", tensor_parallel_size=2, num_gpu_blocks_override=64)
llm.close()
print(other.generate([1], params)[0].outputs[0].token_ids == again.generate([1], params)[0].outputs[0].token_ids)
"""


def free_port() -> str:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        return str(server.getsockname()[1])


@pytest.mark.slow
def test_under_torchrun_rank_0_runs_the_script_and_the_others_serve(tmp_path):
    process, pids = started(tmp_path, ONCE, launcher=(*TORCHRUN, free_port()))
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0 and out.splitlines() == ["6", "True"], err
    assert "Error" not in err and gone(pids, 0)


@pytest.mark.slow
@pytest.mark.parametrize("rank", [0, 1])
def test_under_torchrun_a_rank_that_is_killed_ends_all(tmp_path, rank):
    process, pids = started(tmp_path, FOREVER, launcher=(*TORCHRUN, free_port()))
    os.kill(pids[rank], signal.SIGKILL)
    since = time.monotonic()
    _, err = process.communicate(timeout=60)
    assert process.returncode != 0 and time.monotonic() - since < WITHIN and gone(pids, 1)
    assert "SIGKILL" in err or "Signal 9" in err


@pytest.mark.slow
def test_under_torchrun_another_number_of_processes_is_refused(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(size=4, then=""))
    command = [sys.executable, *TORCHRUN, free_port(), str(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert "tensor_parallel_size is 4, and the launcher started 2 processes (WORLD_SIZE)" in done.stderr


@pytest.mark.slow
def test_two_hosts_are_two_addresses(tmp_path):
    """Each with a launcher of its own, as on two machines; rank 1 is reached at 127.0.0.2."""
    port = free_port()
    here = ("--master-addr", "127.0.0.1", "--master-port", port, "--nnodes", "2", "--nproc-per-node", "1")
    script = tmp_path / "script.py"
    then = """
import subprocess
for pid in llm.executor.pids[1:]:
    print(os.readlink(f"/proc/{pid}/exe") == os.readlink("/proc/self/exe"), flush=True)
lines = open("/proc/net/tcp").read().split("\\n")
print(any(" 0200007F:" in line for line in lines), flush=True)
print(len(llm.generate([[n, 2, 3] for n in range(6)], params)), flush=True)
"""
    script.write_text(SCRIPT.format(size=2, then=then))
    hosts = []
    for node, address in enumerate(("127.0.0.1", "127.0.0.2")):
        command = [sys.executable, "-m", "torch.distributed.run", "--node-rank", str(node), *here, str(script)]
        env = os.environ | {"PAGEDLAB_HOST_IP": address}
        hosts.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env))
    (out, err), (silence, other_err) = (host.communicate(timeout=90) for host in hosts)
    assert [host.returncode for host in hosts] == [0, 0], (err, other_err)
    assert out.splitlines()[1:] == ["True", "True", "6"] and silence == ""
