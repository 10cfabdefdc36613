"""Models whose layers look back at different numbers of tokens: one pool, several tables, and no answer changes."""

from __future__ import annotations

import pytest
import torch
import transformers
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from pagedlab.engine import LLM, EngineDriver, Remap, SamplingParams
from pagedlab.engine.last_query import last_query
from pagedlab.errors import PagedlabError
from pagedlab.executor import Draw
from pagedlab.executor.counting import MODELS, CountingExecutor, choose, logits_after
from pagedlab.executor.pool_size import block_bytes
from pagedlab.kv import KVCacheManager
from pagedlab.model.config import LayerGroup
from pagedlab.model.tokenizer import byte_tokenizer
from pagedlab.model.weights import load_model
from pagedlab.trace import events as ev
from pagedlab.trace import load, replay, save
from pagedlab.trace.invariants import broken, first_broken

PARAMS = SamplingParams(max_tokens=12, ignore_eos=True)
PROMPTS = [[(11 * i + 7 * j) % 250 for i in range(5 + 9 * j)] for j in range(5)]
SHARED = [[3] * 21 + [j] * (3 + j) for j in range(3)]
SMALL = {"num_gpu_blocks_override": 48, "block_size": 4, "max_num_batched_tokens": 16}


@pytest.fixture(scope="module")
def base() -> LLM:
    return LLM("tiny-random-hybrid", device="cpu", num_gpu_blocks_override=8)


def answers(outputs) -> list[list[int]]:
    return [answer.token_ids for output in outputs for answer in output.outputs]


# ------------------------------------------------------------------------------------------------ which layers together


def config(*windows):
    return load_model("tiny-random-hybrid")[0].config.__class__(
        **{name: 16 for name in ("vocab_size", "hidden_size", "intermediate_size", "num_query_heads", "num_kv_heads")},
        num_layers=len(windows), head_size=16, rope_theta=1.0, rms_norm_eps=1.0, max_model_len=64, windows=windows,
        tie_word_embeddings=True, name="any",
    )  # fmt: skip


@pytest.mark.parametrize(
    "windows, groups",
    [
        ((None,) * 3, [(None, (0, 1, 2))]),
        ((8,) * 3, [(8, (0, 1, 2))]),
        ((None, 8) * 2, [(None, (0, 2)), (8, (1, 3))]),
        ((8, 8, None) * 2, [(8, (0, 3)), (8, (1, 4)), (None, (2, 5))]),
        ((None, None, 8, 8, 8), [(None, (0, 1)), (8, (2, 4)), (8, (3,))]),  # 3 is no less than 1.5 x 2
        ((*[8] * 12, *[None] * 13), [(8, tuple(range(12))), (None, tuple(range(12, 25)))]),  # nearly as many: no third
        ((8, 4, None), [(8, (0,)), (4, (1,)), (None, (2,))]),
    ],
)
def test_layers_of_one_window_share_a_table_and_groups_are_of_one_size(windows, groups):
    model = config(*windows)
    assert model.layer_groups == tuple(LayerGroup(*group) for group in groups)
    assert model.num_layers_of_a_block == max(len(layers) for _, layers in groups)
    assert block_bytes(model, 4, 16) == 2 * model.num_layers_of_a_block * 16 * 16 * 4 * 16


# -------------------------------------------------------------------------------------------------------- right answers

FULL, SLIDING = "full_attention", "sliding_attention"


@pytest.mark.parametrize("window", [1, 4, 6, 17])
@pytest.mark.parametrize(
    "types, knobs",
    [
        ([SLIDING, FULL], {"prefix_cache_retention_interval": None}),
        ([SLIDING, SLIDING, FULL], {"async_scheduling": True, "max_num_batched_tokens": 5}),
        ([FULL, SLIDING, SLIDING, FULL, SLIDING], {}),
        ([SLIDING, SLIDING], {"max_num_batched_tokens": 7}),
    ],
    ids=["two groups", "three groups", "a group with fewer layers", "no full attention"],
)
@pytest.mark.filterwarnings("ignore:async_scheduling=True on a CPU")
def test_a_folder_answers_as_transformers_does_in_a_pool_that_is_too_small(window, types, knobs, tmp_path):
    torch.manual_seed(window)
    sizes = dict(vocab_size=259, hidden_size=48, intermediate_size=80, num_hidden_layers=len(types), head_dim=12)
    sizes |= dict(num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=128, eos_token_id=[258])
    theirs = transformers.MinistralForCausalLM(
        transformers.MinistralConfig(**sizes, sliding_window=window, layer_types=types)
    ).eval()
    for parameter in theirs.parameters():
        torch.nn.init.normal_(parameter, mean=float(parameter.dim() == 1), std=0.3)
    theirs.save_pretrained(tmp_path)
    byte_tokenizer()._backend.save(str(tmp_path / "tokenizer.json"))
    llm = LLM(str(tmp_path), device="cpu", record=True, **SMALL | {"num_gpu_blocks_override": 16 * len(types)} | knobs)
    mine = answers(llm.generate(PROMPTS, PARAMS)) + answers(llm.generate(PROMPTS[3:], PARAMS))
    for prompt, answer in zip(PROMPTS + PROMPTS[3:], mine, strict=True):
        with torch.inference_mode():
            logits = theirs(torch.tensor([prompt + answer[:-1]])).logits[0, len(prompt) - 1 :]
        best = logits.max(-1).values
        chosen = logits[range(len(answer)), answer]
        torch.testing.assert_close(chosen, best, atol=1e-3, rtol=0)
    assert first_broken(llm.trace) is None


@pytest.mark.parametrize(
    "knobs",
    [
        {"num_gpu_blocks_override": 64},
        {"num_gpu_blocks_override": 64, "enable_prefix_caching": False},
        {"num_gpu_blocks_override": 64, "prefix_cache_retention_interval": 8},
        {"async_scheduling": True},
        {"batch_invariant": True},
        {"max_num_batched_tokens": 5, "max_num_seqs": 2},
        {"block_size": 1, "num_gpu_blocks_override": 200},
    ],
    ids=str,
)
def test_answers_do_not_depend_on_the_pool(base, knobs):
    alone = [answers(LLM(base, num_gpu_blocks_override=300, block_size=16).generate([p], PARAMS))[0] for p in PROMPTS]
    llm = LLM(base, record=True, **SMALL | knobs)
    assert answers(llm.generate(PROMPTS, PARAMS)) == alone
    assert answers(llm.generate(PROMPTS, PARAMS)) == alone
    assert first_broken(llm.trace) is None
    assert len(replay(llm.trace).free) == llm.num_blocks - 1
    assert replay(llm.trace).counts["blocks_out_of_window"]


# ------------------------------------------------------------------------------------------------------ pool and tables


def test_a_block_holds_the_layers_of_one_group_and_each_layer_reads_its_own(base):
    llm = LLM(base, **SMALL)
    config = llm.model_config
    assert llm.pool_budget.bytes_per_block == block_bytes(config, 4, 4) and config.num_layers_of_a_block == 2
    assert llm.kv_pool.num_layers == 2 and llm.kv_pool.bytes_per_block == llm.pool_budget.bytes_per_block
    llm.add_request(PROMPTS[3], PARAMS)
    while llm.step() == []:
        pass
    full, window = llm.kv_cache_manager.get_block_ids("A")
    assert not set(full) & set(window)
    places = ((0, full[-2]), (2, full[-2]), (1, window[-2]))
    keys = [llm.executor.read_block(layer, block)[0] for layer, block in places]
    assert all(key.any() for key in keys) and not any((a == b).all() for a, b in zip(keys, keys[1:], strict=False))
    for layer in (4, -1):
        with pytest.raises(PagedlabError, match=f"There is no layer {layer}; allowed are 0 to 3"):
            llm.executor.read_block(layer, 1)


def test_events_lead_to_the_managers_tables_at_every_step(base, tmp_path):
    llm = LLM(base, record=True, **SMALL)
    for prompt in SHARED + PROMPTS[3:]:
        llm.add_request(prompt, SamplingParams(max_tokens=30, ignore_eos=True))
    while llm.has_unfinished_requests():
        llm.step()
        state = replay(llm.trace)
        assert broken(state) == []
        for request in llm.scheduler.running:
            name = request.request_id
            tables = tuple(tables[name] for tables in state.group_tables)
            assert tables == llm.kv_cache_manager.get_block_ids(name)
        blocks = llm.block_pool.blocks
        assert [block.ref_cnt for block in blocks][1:] == state.ref_cnt[1:]
        assert {i for i, block in enumerate(blocks) if block.block_hash} == set(state.cached)
    kinds = replay(llm.trace).counts
    assert kinds["blocks_out_of_window"] and kinds["request_preempted"]
    save(llm.trace, tmp_path / "run.jsonl.gz")
    kept = load(tmp_path / "run.jsonl.gz")
    assert kept.events == llm.trace.events and replay(kept).group_tables == replay(llm.trace).group_tables


def test_a_window_moves_while_the_request_runs_and_its_blocks_come_back(base):
    llm = LLM(base, record=True, num_gpu_blocks_override=64, block_size=4)
    llm.add_request(PROMPTS[2], SamplingParams(max_tokens=20, ignore_eos=True))  # 23 tokens, and a window of 16
    while llm.has_unfinished_requests():
        llm.step()
        request = next(iter(llm.requests.values()), None)
        if request is None:
            break
        full, window = replay(llm.trace).group_tables
        passed = max(0, request.num_computed_tokens - 1 - 16 + 1) // 4 if llm.step_count > 1 else 0
        assert 0 not in full["A"] and window["A"].count(0) == passed and window["A"][passed:].count(0) == 0
    gone = [event for event in llm.trace.events if isinstance(event, ev.BlocksOutOfWindow)]
    assert [len(event.block_ids) for event in gone][:2] == [2, 1] and {event.group for event in gone} == {1}


def test_a_prefix_is_hit_as_far_as_both_groups_have_it(base):
    llm = LLM(base, record=True, num_gpu_blocks_override=64, block_size=4, prefix_cache_retention_interval=None)
    (first, second) = (llm.generate([[5] * 40 + [last]], PARAMS)[0] for last in (1, 2))
    assert second.num_cached_tokens == 40
    looked_up = [e for e in llm.trace.events if isinstance(e, ev.PrefixLookedUp)][-2:]
    assert [(e.group, e.num_tokens, e.block_ids.count(0)) for e in looked_up] == [(0, 40, 0), (1, 40, 6)]
    sparse = LLM(base, num_gpu_blocks_override=64, block_size=4)  # a name only where a prompt ends
    sparse.generate([[5] * 40 + [1] * 9], PARAMS)
    assert sparse.generate([[5] * 40 + [2]], PARAMS)[0].num_cached_tokens == 0
    assert sparse.generate([[5] * 40 + [3]], PARAMS)[0].num_cached_tokens == 40, "the second time it is named"


@pytest.mark.parametrize("model", ["tiny-random-hybrid", "tiny-random"])
@pytest.mark.filterwarnings("ignore:async_scheduling=True on a CPU")
def test_an_interrupt_in_mid_step_loses_no_block_and_nobody_finds_what_was_not_written(model, monkeypatch):
    base = LLM(model, device="cpu", num_gpu_blocks_override=8)
    alone = [answers(LLM(base, num_gpu_blocks_override=300, block_size=16).generate([p], PARAMS))[0] for p in SHARED]
    for after in range(6):
        for ahead in (False, True):
            llm = LLM(base, record=True, async_scheduling=ahead, **SMALL | {"prefix_cache_retention_interval": None})
            real, calls = llm.executor.submit, []

            def submit(*given, real=real, calls=calls, after=after):
                calls.append(1)
                if len(calls) == after + 1:
                    raise KeyboardInterrupt
                return real(*given)

            monkeypatch.setattr(llm.executor, "submit", submit)
            for prompt in SHARED:
                llm.add_request(prompt, PARAMS)
            done, interrupts = {}, 0
            while llm.has_unfinished_requests():
                try:
                    done |= {o.request_id: o.outputs[0].token_ids for o in llm.step() if o.finished}
                except KeyboardInterrupt:
                    interrupts += 1
                    assert first_broken(llm.trace) is None
            assert interrupts == 1 and [done[name] for name in sorted(done)] == alone
            assert llm.block_pool.get_num_free_blocks() == llm.num_blocks - 1


def test_labs_step_back_branch_and_show_layers(base):
    llm = LLM(base, record=True, **SMALL)
    llm.add_request(PROMPTS[3], PARAMS)
    driver = EngineDriver(llm)
    for _ in range(6):
        driver.step()
    before = llm.snapshot()
    token_ids = list(llm.requests["A"].all_token_ids)
    for _ in range(3):
        driver.step()
    llm.restore(before)
    assert llm.requests["A"].all_token_ids == token_ids
    twin = driver.branch(4, prompt=PROMPTS[1])
    assert {"A", "B"} <= set(twin.llm.requests)
    for layer in range(4):
        query, blocks, context = last_query(llm, "A", layer)
        assert blocks == [t.block_ids for t in llm.tables["A"].groups][layer % 2][: len(blocks)] and context > 32
    with pytest.raises(PagedlabError, match="several block tables a request"):
        driver.apply(Remap("A", 0, 1)) if driver.position == driver.num_steps else llm.remap("A", 0, 1)


# ------------------------------------------------------------------------------------------------------ what is refused


@pytest.mark.parametrize(
    "knobs, words",
    [
        ({"era": "paper"}, "the paper's era did not know"),
        ({"kv_cache_manager": lambda *a: KVCacheManager(*a)}, "keeps one: leave it out"),
        ({"prefix_cache_retention_interval": 6}, "must be None or a multiple of block_size=4"),
        ({"prefix_cache_retention_interval": -4}, "prefix_cache_retention_interval"),
    ],
)
def test_what_groups_do_not_have_is_one_sentence(base, knobs, words):
    with pytest.raises(PagedlabError, match=words):
        LLM(base, **SMALL | knobs)


def test_a_request_needs_no_more_of_a_window_than_it_ever_holds(base):
    few = LLM(base, num_gpu_blocks_override=35, block_size=4, max_num_batched_tokens=4)  # 27 + (16 - 1 + 4) / 4 + 1
    few.add_request([7] * 96, PARAMS)
    with pytest.raises(PagedlabError, match="this request may need 33 blocks"):
        LLM(base, num_gpu_blocks_override=33, block_size=4, max_num_batched_tokens=4).add_request([7] * 96, PARAMS)
    while few.has_unfinished_requests():
        few.step()


def test_webgpu_says_what_it_does_not_have():
    from pagedlab.kernels.wgsl.gpu import adapters

    if not adapters():
        pytest.skip("no WebGPU adapter here; install one (Debian, Ubuntu: apt-get install mesa-vulkan-drivers)")
    with pytest.raises(PagedlabError, match="sliding window, which the kernels in WGSL do not have: take device="):
        LLM("tiny-random-hybrid", device="webgpu")


# ------------------------------------------------------------------------------------------------------------ a machine


class Brief(CountingExecutor):
    """Eight tokens, so that answers repeat each other and prefixes are shared."""

    def __init__(self):
        super().__init__("counting-hybrid")

    def _logits(self, context, tables):
        return super()._logits(context, tables)[:8]


def answer_without_pages(prompt, max_tokens, most):
    tokens, window = list(prompt), MODELS["counting-hybrid"].windows[1]
    while len(tokens) < min(len(prompt) + max_tokens, most):
        seen = [(token, i) for i, token in enumerate(tokens)]
        tokens.append(choose(logits_after(seen + seen[-window:], 0)[:8], Draw(0, len(tokens), 0)))
    return tokens[len(prompt) :]


class GroupsMachine(RuleBasedStateMachine):
    """An engine with a window, on a pool that is too small, asked for anything in any order."""

    @initialize(spare=st.integers(0, 6), block_size=st.integers(2, 4), caching=st.booleans(), ahead=st.booleans(),
                max_num_seqs=st.integers(1, 4), budget=st.integers(1, 12),
                interval=st.sampled_from([None, 0, 1, 2]))  # fmt: skip
    def start(self, spare, block_size, caching, ahead, max_num_seqs, budget, interval):
        self.llm = LLM(
            executor=Brief(), async_scheduling=ahead, record=True,
            num_gpu_blocks_override=2 * -(-18 // block_size) + 1 + spare, block_size=block_size,
            enable_prefix_caching=caching, max_num_seqs=max_num_seqs, max_num_batched_tokens=budget, max_model_len=18,
            prefix_cache_retention_interval=interval and interval * block_size,
        )  # fmt: skip
        self.wanted = {}

    @rule(tokens=st.lists(st.integers(0, 1), min_size=1, max_size=14), max_tokens=st.integers(1, 20))
    def arrive(self, tokens, max_tokens):
        params = SamplingParams(max_tokens=max_tokens, ignore_eos=True)
        self.wanted[self.llm.add_request(tokens, params)] = tokens, max_tokens

    @rule()
    def step(self):
        for output in self.llm.step():
            if output.finished:
                tokens, max_tokens = self.wanted.pop(output.request_id)
                assert answers([output]) == [answer_without_pages(tokens, max_tokens, 18)]

    @precondition(lambda self: self.wanted)
    @rule(pick=st.integers(0, 99))
    def abort(self, pick):
        request_id = list(self.wanted)[pick % len(self.wanted)]
        self.llm.abort_request(request_id)
        del self.wanted[request_id]

    def teardown(self):
        if hasattr(self, "llm"):
            for _ in range(500):
                if not self.llm.has_unfinished_requests():
                    break
                self.step()
            assert not self.wanted and self.llm.block_pool.get_num_free_blocks() == self.llm.num_blocks - 1
            assert first_broken(self.llm.trace) is None


TestGroups = pytest.mark.slow(GroupsMachine.TestCase)
TestGroups.settings = settings(max_examples=1000, stateful_step_count=20, deadline=None,
                               suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])  # fmt: skip
