"""The engine over its executors: torch, torch over two ranks, one that knows no torch and is late, and WebGPU."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections import deque
from functools import cache

import numpy as np
import pytest
import torch
from contiguous import contiguous_greedy

from pagedlab.attention import choose_backend, paged_attention
from pagedlab.engine import LLM, BeamSearchParams, EngineDriver, Remap, SamplingParams, Scheduler
from pagedlab.engine.last_query import last_query
from pagedlab.errors import PagedlabError
from pagedlab.executor import EXECUTORS, Draw, SamplingMetadata, ScheduledRequest, make_executor
from pagedlab.executor.buffers import Copies, GPUCopies, copies_to
from pagedlab.executor.counting import CountingExecutor, choose, logits_after
from pagedlab.executor.runner import ModelRunner
from pagedlab.kernels.wgsl.gpu import adapters, name_of
from pagedlab.kv.block_table import BlockTable
from pagedlab.model.llama import LlamaModel
from pagedlab.model.weights import load_model
from pagedlab.trace import replay

PARAMS = SamplingParams(max_tokens=12, ignore_eos=True)
PROMPTS = [[(11 * i + 7 * j) % 250 for i in range(5 + 6 * j)] for j in range(5)]


@pytest.fixture(scope="module", params=["torch", "ranks", "counting", "webgpu"])
def base(request) -> LLM:
    """An engine to share the weights of."""
    small = {"num_gpu_blocks_override": 8, "block_size": 4}
    if request.param == "ranks":
        return LLM("tiny-random", device="cpu", tensor_parallel_size=2, **small)
    if request.param == "counting":
        return LLM(device="counting", **small)
    if request.param == "torch":
        return LLM("tiny-random", device="cpu", **small)
    if not adapters():
        pytest.skip("no WebGPU adapter here; install one (Debian, Ubuntu: apt-get install mesa-vulkan-drivers)")
    return LLM("tiny-random", device="webgpu", dtype="float32", **small)


@cache
def torchs_model() -> LlamaModel:
    return load_model("tiny-random", device="cpu", dtype=torch.float32)[0]


def without_pages(base: LLM, prompt: list[int], max_tokens: int) -> list[int]:
    """What the model answers, greedily, where there is no memory to be mixed up."""
    if hasattr(base.executor, "model"):
        return contiguous_greedy(torchs_model(), prompt, max_tokens)
    tokens = list(prompt)
    for position in range(len(prompt), len(prompt) + max_tokens):
        seen = [(token, i) for i, token in enumerate(tokens)]
        tokens.append(choose(logits_after(seen, base.executor.seed), Draw(0, position, 0)))
    return tokens[len(prompt) :]


def tokens(outputs) -> list[list[list[int]]]:
    return [[answer.token_ids for answer in output.outputs] for output in outputs]


@pytest.mark.parametrize(
    "knobs",
    [
        {},
        {"max_num_batched_tokens": 7},
        {"max_num_seqs": 2, "enable_prefix_caching": False},
        {"num_gpu_blocks_override": 13, "max_num_batched_tokens": 5, "block_size": 4},
        {"block_size": 1, "num_gpu_blocks_override": 64},
        {"async_scheduling": True},
        {"async_scheduling": True, "num_gpu_blocks_override": 13, "max_num_batched_tokens": 5, "block_size": 4},
        {"era": "paper"},
        {"era": "paper", "num_gpu_blocks_override": 14, "block_size": 4},
        {"era": "paper", "preemption": "swap", "num_gpu_blocks_override": 14, "block_size": 4},
    ],
    ids=str,
)
def test_a_batch_gets_the_answers_of_a_run_without_pages(base, knobs):
    llm = LLM(base, **{"num_gpu_blocks_override": 128, "block_size": 3, "record": True} | knobs)
    expected = [[without_pages(base, prompt, PARAMS.max_tokens)] for prompt in PROMPTS]
    assert tokens(llm.generate(PROMPTS, PARAMS)) == expected
    if knobs.get("num_gpu_blocks_override", 99) < 20:
        assert replay(llm.trace).counts["request_preempted"], "the pool is so small that somebody makes room"


def test_a_prefix_that_was_computed_before_is_found_and_read(base):
    llm = LLM(base, num_gpu_blocks_override=64, block_size=4)
    prompt = [9] * 30
    llm.generate(prompt, PARAMS)
    (second,) = llm.generate(prompt, PARAMS)
    assert second.num_cached_tokens == 28
    assert tokens([second]) == [[without_pages(base, prompt, PARAMS.max_tokens)]]


def test_answers_that_are_drawn_are_the_same_in_both_eras_and_in_a_pool_that_is_too_small(base):
    params = SamplingParams(n=3, temperature=0.9, top_k=40, top_p=0.95, seed=5, max_tokens=8, ignore_eos=True)
    small = {"num_gpu_blocks_override": 26, "block_size": 3}
    engines = [
        LLM(base, num_gpu_blocks_override=256, block_size=3),
        LLM(base, num_gpu_blocks_override=14, block_size=3),
        LLM(base, num_gpu_blocks_override=256, block_size=3, async_scheduling=True),
        LLM(base, era="paper", **small),
        LLM(base, era="paper", preemption="swap", **small),
    ]
    first, *others = (tokens(llm.generate(PROMPTS[:3], params)) for llm in engines)
    assert all(other == first for other in others)
    assert len({tuple(answer) for answers in first for answer in answers}) == 9


def test_beams_copied_on_write_and_swapped_are_those_of_a_roomy_pool(base):
    params = BeamSearchParams(beam_width=3, max_tokens=7)
    roomy = LLM(base, era="paper", num_gpu_blocks_override=256, block_size=4)
    tight = LLM(base, era="paper", num_gpu_blocks_override=20, block_size=4, preemption="swap", record=True)
    answers = [
        [[s.tokens for s in output.sequences] for output in llm.beam_search(PROMPTS[:3], params)]
        for llm in (roomy, tight)
    ]
    assert answers[0] == answers[1]
    met = {e.kind for e in tight.trace.events}
    assert met >= {"block_copied", "blocks_swapped_out", "blocks_swapped_in", "request_forked"}


def test_a_wrong_entry_in_a_block_table_gives_wrong_tokens_and_undoing_it_the_right_ones(base):
    llm = LLM(base, num_gpu_blocks_override=32, block_size=4, record=True)
    for prompt in PROMPTS[2:4]:
        llm.add_request(prompt, PARAMS)
    driver = EngineDriver(llm)
    driver.step()
    driver.apply(Remap("A", 0, llm.tables["B"].block_ids[0]))
    while driver.can_step:
        driver.step()
    answer = without_pages(base, PROMPTS[2], PARAMS.max_tokens)
    assert replay(llm.trace).requests["A"].token_ids != PROMPTS[2] + answer
    driver.undo()
    while driver.can_step:
        driver.step()
    assert replay(llm.trace).requests["A"].token_ids == PROMPTS[2] + answer


def test_restoring_a_snapshot_brings_back_what_lay_in_the_blocks(base):
    llm = LLM(base, num_gpu_blocks_override=32, block_size=4)
    for prompt in PROMPTS[2:4]:
        llm.add_request(prompt, PARAMS)
    llm.step()
    snapshot, used = llm.snapshot(), set(llm.used_blocks)
    for _ in range(3):
        while llm.step_count < 8:
            llm.step()
        later = min(llm.used_blocks - used)
        assert np.any(llm.executor.read_block(0, later)[0])
        llm.executor.copy_blocks([(llm.tables["B"].block_ids[0], llm.tables["A"].block_ids[0])])
        llm.restore(snapshot)
        assert not np.any(llm.executor.read_block(0, later)[0]), "nobody had written to it then"
    answers = {}
    while llm.has_unfinished_requests():
        answers |= {output.request_id: output.outputs[0].token_ids for output in llm.step()}
    assert list(answers.values()) == [without_pages(base, prompt, PARAMS.max_tokens) for prompt in PROMPTS[2:4]]


def test_a_branch_is_lived_again_on_the_same_weights(base):
    llm = LLM(base, num_gpu_blocks_override=32, block_size=4, record=True)
    llm.generate(PROMPTS[:2], PARAMS)
    other = EngineDriver(llm).branch(3, replace={"A": PROMPTS[4]}, block_size=2).llm
    while other.has_unfinished_requests():
        other.step()
    for request_id, prompt in (("A", PROMPTS[4]), ("B", PROMPTS[1])):
        answer = without_pages(base, prompt, PARAMS.max_tokens)
        assert replay(other.trace).requests[request_id].token_ids == prompt + answer


# ------------------------------------------------------------------------------------------------- collected late


class InTurns(Scheduler):
    """Leaves out whoever is under way, so that another step can start before the first one's tokens are known."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.under_way: set[str] = set()

    def schedule(self):
        away = [request for request in self.running if request.request_id in self.under_way]
        self.running = [request for request in self.running if request not in away]
        output = super().schedule()
        self.running = away + self.running
        self.under_way |= output.num_scheduled_tokens.keys()
        return output

    def update_from_output(self, output, sampled, is_stop):
        self.under_way -= output.num_scheduled_tokens.keys()
        return super().update_from_output(output, sampled, is_stop)


@pytest.mark.parametrize("most", [1, 2, 3])
def test_steps_whose_tokens_are_collected_later_give_the_same_answers(base, most):
    llm = LLM(base, scheduler=InTurns, num_gpu_blocks_override=128, block_size=3, max_num_batched_tokens=20)
    for prompt in PROMPTS:
        llm.add_request(prompt, PARAMS)
    under_way, answers, together = deque(), {}, 0
    while llm.has_unfinished_requests():
        under_way.append(llm._start())
        together = max(together, sum(bool(step.batch) for step in under_way))
        while under_way and (len(under_way) >= most or not under_way[-1].batch):
            for output in llm._finish(under_way.popleft()):
                answers[output.request_id] = output.outputs[0].token_ids
    assert together == most
    assert list(answers.values()) == [without_pages(base, prompt, PARAMS.max_tokens) for prompt in PROMPTS]


def test_handles_may_be_collected_in_any_order_and_what_was_submitted_may_change_meanwhile(base):
    llm = LLM(base, num_gpu_blocks_override=16, block_size=4)
    handles = []
    for first, prompt in ((1, PROMPTS[0]), (5, PROMPTS[1])):
        given, table = list(prompt), BlockTable(4, range(first, first + 4))
        batch = [ScheduledRequest("A", given, 0, len(given), table)]
        wanted = SamplingMetadata([Draw(0, len(given), seed=0)], logits=[0])
        handles.append(llm.executor.submit(batch, wanted))
        given[:], table.block_ids[:] = [0] * len(given), [0] * 4
    llm.executor.copy_blocks([(5, 1), (6, 2)])  # asked for after both, so it disturbs neither
    for prompt, handle in reversed(list(zip(PROMPTS, handles, strict=False))):
        output = llm.executor.collect(handle)
        assert output.token_ids == without_pages(base, prompt, 1)
        assert np.shape(output.logits) == (1, base.executor.model_config.vocab_size)
        assert int(np.argmax(output.logits[0])) == output.token_ids[0]


def test_an_interrupt_while_tokens_are_awaited_leaves_the_engine_usable(base):
    llm = LLM(base, num_gpu_blocks_override=32, block_size=4)
    collect, llm.executor.collect = llm.executor.collect, lambda handle: (_ for _ in ()).throw(KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        llm.generate(PROMPTS[:2], PARAMS)
    llm.executor.collect = collect
    assert not llm.groups and llm.block_pool.get_num_free_blocks() == 31
    assert tokens(llm.generate(PROMPTS[1], PARAMS)) == [[without_pages(base, PROMPTS[1], PARAMS.max_tokens)]]


# ------------------------------------------------------------------------------------------------ what it can say


def test_a_block_can_be_read_on_any_executor(base):
    llm = LLM(base, num_gpu_blocks_override=16, block_size=4)
    llm.add_request(PROMPTS[1], PARAMS)
    llm.step()
    block = llm.tables["A"].block_ids[1]
    c = llm.executor.model_config
    key, value = llm.executor.read_block(c.num_layers - 1, block)
    assert np.shape(key) == np.shape(value) == (4, c.num_kv_heads, c.head_size)
    if hasattr(llm.executor, "kv_pool"):
        layer = llm.executor.kv_pool.layer(c.num_layers - 1)
        here = slice(layer.num_kv_heads)  # of several ranks this one has the first heads
        assert np.array_equal(key[:, here], layer.key[block]) and np.array_equal(value[:, here], layer.value[block])
        assert np.any(key) and key.dtype == np.float32
        key[:] = 0
        assert layer.key[block].any(), "what was read is a copy"
    else:
        assert np.ravel(key).tolist() == PROMPTS[1][4:8] and np.ravel(value).tolist() == [4, 5, 6, 7]
    for place in ((c.num_layers, 1), (0, 16), (-1, 1), (0, "1")):
        with pytest.raises(PagedlabError, match="There is no (layer|block)|must be a whole number"):
            llm.executor.read_block(*place)


def test_what_an_executor_says_of_itself_is_in_the_header(base):
    llm = LLM(base, num_gpu_blocks_override=16, record=True)
    described = llm.executor.describe()
    assert llm.trace.header.items() >= described.items()
    assert llm.device_name == described["device"] in ("CPU", "counting", *map(name_of, adapters()))
    assert set(described) - {"driver"} == {
        "torch", "triton", "device", "compute_capability", "attention_backend", "dtype", "precision", "model",
        "model_shape",
    }  # fmt: skip
    other = LLM("tiny-random", device="cpu", num_gpu_blocks_override=2, attention=paged_attention)
    assert other.executor.describe()["attention_backend"] == "pagedlab.attention:paged_attention"


def test_a_closed_engine_gives_its_memory_back_and_others_on_its_weights_go_on(base):
    first, second = (LLM(base, num_gpu_blocks_override=32, block_size=4) for _ in range(2))
    first.close()
    held = [getattr(first.executor, name, None) for name in ("kv_pool", "swap_space", "runner", "program")]
    assert held == [None] * 4
    assert tokens(second.generate(PROMPTS[0], PARAMS)) == [[without_pages(base, PROMPTS[0], PARAMS.max_tokens)]]


def test_an_executor_is_given_alone_and_serves_one_engine(base):
    executor = base.executor.share()
    llm = LLM(executor=executor, num_gpu_blocks_override=32, block_size=4)
    assert tokens(llm.generate(PROMPTS[0], PARAMS)) == [[without_pages(base, PROMPTS[0], PARAMS.max_tokens)]]
    with pytest.raises(PagedlabError, match=r"serves an engine already; give the second one executor.share\(\)"):
        LLM(executor=executor, num_gpu_blocks_override=32)
    for more in ({"model": "tiny-random"}, {"device": "cpu"}, {"dtype": "float32"}, {"model": base}):
        with pytest.raises(PagedlabError, match="has its model, device and dtype; give it alone"):
            LLM(executor=executor, **more)


def test_attention_goes_to_an_executor_that_has_one_and_is_refused_elsewhere():
    with pytest.raises(PagedlabError, match="CountingExecutor has no attention that could be replaced"):
        LLM(device="counting", attention=paged_attention, num_gpu_blocks_override=8)
    llm = LLM(device="counting", num_gpu_blocks_override=8, block_size=4)
    llm.add_request([1, 2, 3], PARAMS)
    llm.step()
    with pytest.raises(PagedlabError, match="CountingExecutor cannot tell what attention asked for"):
        last_query(llm, "A", 0)


def test_a_device_that_no_executor_has_is_refused_with_the_names_of_those_that_there_are():
    names = "auto, cpu, cuda, mps, webgpu, counting, and cuda:0"
    with pytest.raises(PagedlabError, match=f"'toaster'; allowed are {names}"):
        make_executor(device="toaster")
    with pytest.raises(PagedlabError, match="has no dtype, and one of these models: counting, counting-hybrid"):
        make_executor("tiny-random", device="counting")
    if not torch.backends.mps.is_available():
        with pytest.raises(PagedlabError, match="'mps', but torch finds none of Apple's GPUs here: use 'cpu'"):
            LLM("tiny-random", device="mps")


def test_counting_refuses_a_block_that_is_not_there():
    llm = LLM(device="counting", num_gpu_blocks_override=8, block_size=4)
    part = ScheduledRequest("A", [1, 2], 0, 2, BlockTable(4, [8]))
    with pytest.raises(PagedlabError, match="There is no block 8; ids go from 0 to 7"):
        llm.executor.submit([part], SamplingMetadata())


# ------------------------------------------------------------------------------------------- without torch; on MPS

NO_TORCH = """
import importlib, pkgutil, sys
sys.modules["torch"] = sys.modules["triton"] = None  # importing them is an error from here on
import pagedlab.engine
for module in pkgutil.iter_modules(pagedlab.engine.__path__, "pagedlab.engine."):
    importlib.import_module(module.name)
from pagedlab.engine import LLM, BeamSearchParams, EngineDriver, SamplingParams
from pagedlab.engine.cards import plan_card
from pagedlab.executor.counting import CountingExecutor
assert plan_card("H200").outcome == "fits"
llm = LLM(executor=CountingExecutor(), num_gpu_blocks_override=12, block_size=4, record=True)
print(*(o.outputs[0].token_ids for o in llm.generate(["one prompt", "another one"], SamplingParams(max_tokens=9))))
driver = EngineDriver(llm).branch(2, prompt="a third")
while driver.can_step:
    driver.step()
paper = LLM(llm, era="paper", preemption="swap", num_gpu_blocks_override=24, block_size=4)
beams = paper.beam_search("one prompt", BeamSearchParams(beam_width=2, max_tokens=5))
print(beams[0].sequences[0].tokens)
"""


def test_the_engine_needs_no_torch():
    done = subprocess.run([sys.executable, "-c", NO_TORCH], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    llm = LLM(executor=CountingExecutor(), num_gpu_blocks_override=64, block_size=4)
    outputs = llm.generate(["one prompt", "another one"], SamplingParams(max_tokens=9))
    assert done.stdout.splitlines()[0] == " ".join(str(o.outputs[0].token_ids) for o in outputs)


def test_a_device_with_memory_of_its_own_that_copies_at_once_gives_the_same_tokens(tiny):
    """The way that MPS takes, on a CPU: the host's numbers are copied to other memory."""
    llm = LLM(tiny, num_gpu_blocks_override=64, block_size=4, max_num_batched_tokens=9)
    executor = llm.executor
    limits = {"max_num_seqs": 256, "max_num_batched_tokens": 9, "max_model_len": llm.max_model_len}
    executor.runner = ModelRunner(executor.model, executor.kv_pool, copies=Copies(), **limits)
    sent = executor.runner._token_ids.send(3)
    assert sent.data_ptr() != executor.runner._token_ids.host.ctypes.data
    assert tokens(llm.generate(PROMPTS, PARAMS)) == [[without_pages(tiny, p, PARAMS.max_tokens)] for p in PROMPTS]


def test_mps_is_served_by_torch_and_its_numbers_are_copied():
    mps = torch.device("mps")
    assert choose_backend(None, mps) == "torch"
    assert type(copies_to(mps)) is Copies and copies_to(torch.device("cpu")) is None
    assert issubclass(GPUCopies, Copies)


# -------------------------------------------------------------------------------------------- an executor of one's own


class Shy(CountingExecutor):
    """An executor as CONTRIBUTING tells to write one: here all but the choice of the token is another's."""

    @staticmethod
    def sampler(logits, draw):
        return min(range(len(logits)), key=lambda token: logits[token])


def test_an_executor_is_a_class_and_a_line_in_the_table(monkeypatch):
    monkeypatch.setitem(EXECUTORS, "shy", f"{__name__}:Shy")
    llm = LLM(device="shy", num_gpu_blocks_override=16, block_size=4, record=True)
    answers = tokens(llm.generate(PROMPTS[0], PARAMS))
    assert answers == tokens(LLM(device="shy", num_gpu_blocks_override=64).generate(PROMPTS[0], PARAMS))
    assert answers != tokens(LLM(device="counting", num_gpu_blocks_override=64).generate(PROMPTS[0], PARAMS))
    sampled = [e for e in llm.trace.events if e.kind == "token_sampled"]
    assert {e.source for e in sampled} == {f"{__name__}:Shy.sampler"}


def test_swapping_in_a_full_cpu_pool_falls_back_on_any_executor(base):
    llm = LLM(base, era="paper", preemption="swap", num_gpu_blocks_override=14, num_cpu_blocks_override=1, block_size=4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        outputs = llm.generate(PROMPTS, PARAMS)
    assert tokens(outputs) == [[without_pages(base, p, PARAMS.max_tokens)] for p in PROMPTS]
