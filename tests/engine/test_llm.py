"""What the engine promises: the same tokens whatever memory does, and clear words where it cannot run."""

from __future__ import annotations

import copy
import json
import pickle
import random

import numpy as np
import pytest
import torch
from contiguous import contiguous_greedy

from pagedlab.attention import paged_attention
from pagedlab.engine import LLM, BeamSearchParams, EngineDriver, Remap, SamplingParams, Scheduler
from pagedlab.engine.output import is_stop, output_of
from pagedlab.engine.request import Request
from pagedlab.engine.sequence_group import SequenceGroup
from pagedlab.errors import PagedlabError, whole
from pagedlab.executor.counting import CountingExecutor
from pagedlab.kv import BlockPool, KVCacheManager
from pagedlab.trace import TraceDriver, load, replay, save
from pagedlab.trace.events import to_dict

GREEDY = SamplingParams(max_tokens=12, ignore_eos=True)


def prompts(seed: int, count: int, longest: int = 40) -> list[list[int]]:
    rng = random.Random(seed)
    shared = [rng.randrange(256) for _ in range(longest)]
    return [
        shared[: rng.randrange(longest // 2)] + [rng.randrange(256) for _ in range(rng.randrange(1, longest // 2))]
        for _ in range(count)
    ]


def assert_matches_live_engine(state, llm: LLM) -> None:
    pool, manager = llm.block_pool, llm.kv_cache_manager
    assert state.tables == {r: manager.get_block_ids(r) for r in manager.req_to_blocks}
    assert state.ref_cnt == [block.ref_cnt for block in pool.blocks]
    assert state.free == [block.block_id for block in pool.free_block_queue.get_all_free_blocks()]
    assert state.cached == {b.block_id: b.block_hash.hex() for b in pool.blocks if b.block_hash is not None}
    assert state.waiting == [request.request_id for request in llm.scheduler.waiting]
    assert state.running == [request.request_id for request in llm.scheduler.running]
    for request in [*llm.scheduler.waiting, *llm.scheduler.running]:
        seen = state.requests[request.request_id]
        assert seen.token_ids == request.all_token_ids
        assert seen.num_computed_tokens == request.num_computed_tokens


@pytest.mark.parametrize(
    "knobs",
    [
        {},
        {"max_num_batched_tokens": 7},
        {"enable_prefix_caching": False},
        {"num_gpu_blocks_override": 16},
        {"num_gpu_blocks_override": 16, "max_num_batched_tokens": 5, "block_size": 3},
        {"block_size": 1, "num_gpu_blocks_override": 64},
        {"max_num_seqs": 2},
    ],
    ids=str,
)
def test_paged_greedy_tokens_equal_contiguous_ones_under_any_knobs(tiny, knobs):
    llm = LLM(tiny, **{"num_gpu_blocks_override": 256, "block_size": 4} | knobs)
    batch = prompts(0, 8)
    outputs = llm.generate(batch, GREEDY)
    for prompt, output in zip(batch, outputs, strict=True):
        assert output.outputs[0].token_ids == contiguous_greedy(llm.model, prompt, GREEDY.max_tokens)
    assert llm.block_pool.get_num_free_blocks() == llm.num_blocks - 1


def test_a_pool_that_is_too_small_for_all_preempts_and_still_finishes_everyone(tiny):
    llm = LLM(tiny, num_gpu_blocks_override=16, block_size=4, record=True)
    outputs = llm.generate(prompts(1, 6, longest=30), SamplingParams(max_tokens=16, ignore_eos=True))
    assert replay(llm.trace).counts["request_preempted"] > 0
    assert all(len(o.outputs[0].token_ids) == 16 for o in outputs)


def test_the_second_request_with_the_same_prefix_computes_only_the_rest(tiny):
    llm = LLM(tiny, num_gpu_blocks_override=64, block_size=4)
    prompt = prompts(2, 1)[0] + [1] * 9
    first = llm.generate(prompt, GREEDY)[0]
    second = llm.generate(prompt, GREEDY)[0]
    assert first.num_cached_tokens == 0
    assert second.num_cached_tokens == (len(prompt) - 1) // 4 * 4
    assert second.outputs[0].token_ids == first.outputs[0].token_ids


def test_salted_requests_share_nothing(tiny):
    llm = LLM(tiny, num_gpu_blocks_override=64, block_size=4)
    prompt = [7] * 20
    for salt in ("alice", "bob"):
        llm.add_request(prompt, GREEDY, salt=salt)
        while llm.has_unfinished_requests():
            outputs = llm.step()
        assert outputs[0].num_cached_tokens == 0


@pytest.mark.parametrize("seed", range(6))
def test_replaying_the_trace_gives_the_live_state_after_every_step(tiny, seed):
    rng = random.Random(seed)
    llm = LLM(
        tiny,
        record=True,
        num_gpu_blocks_override=rng.choice([14, 24, 64]),
        block_size=rng.choice([1, 3, 4, 8]),
        max_num_batched_tokens=rng.choice([6, 32, 512]),
        max_num_seqs=rng.choice([2, 8]),
        enable_prefix_caching=rng.random() < 0.7,
    )
    for prompt in prompts(seed, 10, longest=12):
        if rng.random() < 0.5:
            llm.step()
        llm.add_request(prompt, SamplingParams(max_tokens=rng.randrange(1, 5), ignore_eos=True))
        if rng.random() < 0.1:
            llm.abort_request(rng.choice(list(llm.groups)))
        assert_matches_live_engine(replay(llm.trace), llm)
    while llm.has_unfinished_requests():
        llm.step()
        assert_matches_live_engine(replay(llm.trace), llm)
    assert llm.kv_cache_manager.reset_prefix_cache()
    assert_matches_live_engine(replay(llm.trace), llm)


def test_a_saved_trace_replays_to_the_same_states(tiny, tmp_path):
    llm = LLM(tiny, record=True, num_gpu_blocks_override=32, block_size=4)
    llm.generate(prompts(3, 3), GREEDY)
    loaded = load(save(llm.trace, tmp_path / "run.jsonl.gz"))
    assert loaded.events == llm.trace.events
    driver = TraceDriver(loaded)
    while driver.step():
        assert driver.state() == replay(llm.trace, driver.num_events(driver.position))


def test_sampling_depends_on_seed_and_position_alone(tiny):
    params = SamplingParams(temperature=1.0, top_k=50, top_p=0.95, seed=5, max_tokens=10, ignore_eos=True)
    batch = prompts(4, 5)
    roomy = LLM(tiny, num_gpu_blocks_override=256, block_size=4).generate(batch, params)
    tight = LLM(tiny, num_gpu_blocks_override=16, block_size=4, max_num_batched_tokens=8).generate(batch, params)
    assert [o.outputs[0].token_ids for o in roomy] == [o.outputs[0].token_ids for o in tight]
    other = LLM(tiny, num_gpu_blocks_override=256, block_size=4).generate(
        batch, SamplingParams(temperature=1.0, seed=6, max_tokens=10, ignore_eos=True)
    )
    assert [o.outputs[0].token_ids for o in roomy] != [o.outputs[0].token_ids for o in other]


def test_tiny_temperature_top_k_1_and_tiny_top_p_are_all_greedy(tiny):
    llm = LLM(tiny, num_gpu_blocks_override=64, block_size=4)
    prompt = prompts(5, 1)[0]
    greedy = llm.generate(prompt, GREEDY)[0].outputs[0].token_ids
    for extreme in ({"temperature": 1e-30}, {"temperature": 1.0, "top_k": 1}, {"temperature": 1.0, "top_p": 1e-9}):
        assert (
            llm.generate(prompt, SamplingParams(max_tokens=12, ignore_eos=True, **extreme))[0].outputs[0].token_ids
            == greedy
        )


def test_n_answers_share_the_prompts_full_blocks_and_differ(tiny):
    llm = LLM(tiny, num_gpu_blocks_override=64, block_size=4, record=True)
    output = llm.generate([3] * 18, SamplingParams(n=3, temperature=1.5, seed=1, max_tokens=6, ignore_eos=True))[0]
    assert [o.index for o in output.outputs] == [0, 1, 2]
    assert len({tuple(o.token_ids) for o in output.outputs}) == 3
    after_prefill = replay(llm.trace, llm.trace.step_ends()[0])
    assert len({tuple(table[:4]) for table in after_prefill.tables.values()}) == 1
    assert [after_prefill.ref_cnt[b] for b in after_prefill.tables["A/0"]] == [3, 3, 3, 3, 1]


@pytest.mark.parametrize("era", ["v1", "paper"])
def test_answers_to_neighbouring_seeds_are_all_different(tiny, era):
    def answers(llm, *seeds):
        drawn = {"n": 3, "temperature": 1.5, "max_tokens": 8, "ignore_eos": True}
        outputs = llm.generate([[3] * 9] * len(seeds), [SamplingParams(seed=seed, **drawn) for seed in seeds])
        return [tuple(answer.token_ids) for output in outputs for answer in output.outputs]

    knobs = {"num_gpu_blocks_override": 128, "block_size": 4, "era": era}
    found = answers(LLM(tiny, **knobs), *range(5, 11))
    assert len(set(found)) == 18
    assert len(set(answers(LLM(tiny, **knobs), None, None, None))) == 9  # the engine's seed and the request's number
    engines = [LLM(tiny, **(knobs | {"seed": seed})) for seed in (0, 1)]
    assert len({text for llm in engines for text in answers(llm, None, None, None)}) == 18  # neighbouring engines, too
    alone = SamplingParams(seed=7, temperature=1.5, max_tokens=8, ignore_eos=True)
    assert tuple(LLM(tiny, **knobs).generate([3] * 9, alone)[0].outputs[0].token_ids) == found[6]


def test_forks_of_neighbouring_seeds_draw_differently(tiny):
    knobs = {"num_gpu_blocks_override": 128, "block_size": 4, "era": "paper"}
    found = set()
    for seed in (5, 6, 7):
        llm = LLM(tiny, **knobs)
        llm.add_request([3] * 9, SamplingParams(seed=seed, temperature=1.5, max_tokens=9, ignore_eos=True))
        llm.step()
        llm.fork_request("A"), llm.fork_request("A/1")
        while llm.has_unfinished_requests():
            outputs = llm.step()
        found |= {tuple(answer.token_ids[1:]) for answer in outputs[0].outputs}
    assert len(found) == 9


def test_text_ends_before_a_stop_string_and_at_end_of_text(tiny):
    llm = LLM(tiny, num_gpu_blocks_override=64, block_size=4)
    prompt = prompts(6, 1)[0]
    full = llm.generate(prompt, GREEDY)[0].outputs[0]
    stop = full.text[3:5]
    cut = llm.generate(prompt, SamplingParams(max_tokens=12, ignore_eos=True, stop=stop))[0].outputs[0]
    assert cut.text == full.text[: full.text.find(stop)]
    assert cut.finish_reason == "stop"
    assert full.finish_reason == "length"


def test_end_of_text_ends_a_request_unless_ignored(tiny):
    llm = LLM(tiny, num_gpu_blocks_override=64, block_size=4)
    prompt = prompts(7, 1)[0]
    tokens = llm.generate(prompt, GREEDY)[0].outputs[0].token_ids
    before, llm.tokenizer.eos_token_ids = llm.tokenizer.eos_token_ids, {tokens[2]}
    try:
        output = llm.generate(prompt, SamplingParams(max_tokens=12))[0].outputs[0]
        assert output.finish_reason == "stop"
        assert output.token_ids == tokens[: tokens.index(tokens[2]) + 1]
        assert llm.generate(prompt, GREEDY)[0].outputs[0].token_ids == tokens
    finally:
        llm.tokenizer.eos_token_ids = before


def text_of(llm, token_ids, **params):
    """What the engine makes of an answer of these tokens (those of a random model spell nothing): text and reason."""
    request = Request("A", [1], SamplingParams(**{"ignore_eos": True} | params), block_size=4)
    for token_id in token_ids:
        request.append_output_token(token_id)
        if is_stop(request, llm.tokenizer):
            request.finish_reason = "stop"
            break
    answer = output_of(SequenceGroup("A", None, [1], [request]), llm.tokenizer).outputs[0]
    return answer.text, answer.finish_reason


@pytest.mark.parametrize("stop,text", [
    ("45", "A123"), ("A", ""), (["9", "34", "1"], "A"), (["5A", "4"], "A123"), ("A6", "A12345"), ("~", "A12345A6789é"),
])  # fmt: skip
def test_an_ignored_end_of_text_takes_nothing_from_what_comes_before_a_stop_string(tiny, ends_at_a, stop, text):
    tokens = [*"A12345A6789é".encode()]
    assert text_of(tiny, tokens, stop=stop) == (text, None if stop == "~" else "stop")
    assert text_of(tiny, tokens[:-1]) == ("A12345A6789\ufffd", None)


def test_whatever_token_ends_the_text_if_it_is_ignored_the_answer_is_the_same(tiny):
    llm = LLM(tiny, num_gpu_blocks_override=64, block_size=4)
    before = llm.tokenizer.eos_token_ids
    full = llm.generate([7, 8, 9], GREEDY)[0].outputs[0]
    stop = full.text[5:7]
    for token_id in full.token_ids:
        llm.tokenizer.eos_token_ids = {token_id}
        try:
            cut = llm.generate([7, 8, 9], SamplingParams(max_tokens=12, ignore_eos=True, stop=stop))[0].outputs[0]
            assert llm.generate([7, 8, 9], GREEDY)[0].outputs[0].text == full.text
        finally:
            llm.tokenizer.eos_token_ids = before
        assert cut.text == full.text[: full.text.find(stop)]


def test_an_end_of_text_that_counts_is_none_of_the_text(tiny, ends_at_a):
    assert text_of(tiny, b"12A4", ignore_eos=False) == ("12", "stop")
    assert text_of(tiny, b"12A4", ignore_eos=False, stop="A") == ("12", "stop")
    assert text_of(tiny, b"12A4", ignore_eos=False, stop="2") == ("1", "stop")


def test_special_tokens_never_show_and_stop_strings_reach_across_them(tiny):
    tokens = [*b"12", 256, *b"345"]
    assert text_of(tiny, tokens) == ("12345", None)
    assert text_of(tiny, tokens, stop="23") == ("1", "stop")


def test_half_a_character_is_not_taken_for_a_stop_string(tiny):
    tokens = [*"aéb".encode(), 0xC3, *b"cd"]
    assert text_of(tiny, tokens, stop="é") == ("a", "stop")
    assert text_of(tiny, tokens, stop="\ufffd") == ("aéb", "stop")  # once it is certain that it stays half a one


def test_a_request_stops_at_the_context_limit(tiny):
    llm = LLM(tiny, num_gpu_blocks_override=64, block_size=4, max_model_len=20)
    output = llm.generate([5] * 15, SamplingParams(max_tokens=100, ignore_eos=True))[0].outputs[0]
    assert len(output.token_ids) == 5
    assert output.finish_reason == "length"


@pytest.mark.parametrize(
    "prompt, params, message",
    [
        ([], {}, "empty"),
        ("", {}, "empty"),
        ([1] * 600, {}, "max_model_len is 512"),
        ([1] * 100, {"max_tokens": 50}, "may need 38 blocks"),
        ([1, 10**9], {}, "not in the vocabulary"),
        ([1, -1], {}, "not in the vocabulary"),
    ],
)
def test_a_prompt_that_can_never_run_is_refused_and_the_engine_stays_usable(tiny, prompt, params, message):
    llm = LLM(tiny, num_gpu_blocks_override=16, block_size=4, record=True)
    with pytest.raises(PagedlabError, match=message):
        llm.add_request(prompt, SamplingParams(**params))
    with pytest.raises(PagedlabError, match=message):
        llm.generate([[1, 2, 3], prompt], SamplingParams(**params))
    assert not llm.has_unfinished_requests()
    assert len(llm.generate([1, 2, 3], GREEDY)[0].outputs[0].token_ids) == 12
    assert_matches_live_engine(replay(llm.trace), llm)


def test_the_largest_request_that_is_accepted_also_finishes(tiny):
    llm = LLM(tiny, num_gpu_blocks_override=16, block_size=4)
    output = llm.generate([1] * 50, SamplingParams(max_tokens=11, ignore_eos=True))[0]  # 60 slots, 15 blocks
    assert len(output.outputs[0].token_ids) == 11
    with pytest.raises(PagedlabError, match="may need 16 blocks"):
        llm.add_request([1] * 50, SamplingParams(max_tokens=12))


@pytest.mark.parametrize(
    "values",
    [
        {"max_tokens": 0},
        {"max_tokens": -1},
        {"max_tokens": True},
        {"n": 0},
        {"temperature": -1},
        {"temperature": float("nan")},
        {"top_p": 0},
        {"top_p": 1.5},
        {"top_k": -1},
        {"stop": [""]},
        {"stop_token_ids": [-1]},
        {"seed": "x"},
    ],
    ids=str,
)
def test_sampling_params_that_make_no_sense_are_refused(values):
    with pytest.raises(PagedlabError, match=next(iter(values))):
        SamplingParams(**values)


@pytest.mark.parametrize(
    "knobs, message",
    [
        ({"block_size": 0}, "block_size"),
        ({"num_gpu_blocks_override": -3}, "num_gpu_blocks_override"),
        ({"gpu_memory_utilization": 1.2}, "share of the card"),
        ({"gpu_memory_utilization": 0}, "share of the card"),
        ({"device_memory": 1000, "num_gpu_blocks_override": None}, "No room for a KV pool"),
        ({"blocksize": 4}, "Unknown knob blocksize"),
        ({"device": "gpu"}, "Unknown device"),
        ({"device": True}, "Unknown device"),
        ({"device": []}, "Unknown device"),
        ({"dtype": "int8"}, "dtype"),
        ({"max_num_seqs": 0}, "max_num_seqs"),
    ],
    ids=str,
)
def test_knobs_that_make_no_sense_are_refused(knobs, message):
    with pytest.raises(PagedlabError, match=message):
        LLM("tiny-random", **{"num_gpu_blocks_override": 16} | knobs)


def test_the_pool_follows_from_card_knob_weights_and_activations(tiny):
    half, full = (LLM(tiny, gpu_memory_utilization=u, device_memory=1 << 28).pool_budget for u in (0.5, 1.0))
    assert full.allowed == 1 << 28
    assert full.num_blocks == (full.allowed - full.weights - full.activations) // full.bytes_per_block
    assert half.num_blocks == ((1 << 27) - full.weights - full.activations) // full.bytes_per_block
    assert full.bytes_per_block == tiny.kv_pool.bytes_per_token * 16
    assert LLM(tiny, num_gpu_blocks_override=9).num_blocks == 9


def test_an_aborted_request_gives_its_blocks_back(tiny):
    llm = LLM(tiny, num_gpu_blocks_override=32, block_size=4)
    a, b = llm.add_request([1] * 10, GREEDY), llm.add_request([2] * 10, SamplingParams(n=2, max_tokens=5))
    llm.step()
    llm.abort_request(a)
    llm.abort_request(b)
    assert not llm.has_unfinished_requests()
    assert llm.block_pool.get_num_free_blocks() == 31
    with pytest.raises(PagedlabError, match="no unfinished request 'A'"):
        llm.abort_request(a)


def test_a_part_that_raises_leaves_the_engine_usable(tiny):
    fail = {"now": False}

    def attention(*args, **kwargs):
        if fail["now"]:
            raise RuntimeError("a learner's bug")
        return paged_attention(*args, **kwargs)

    llm = LLM(tiny, num_gpu_blocks_override=32, block_size=4, attention=attention)
    expected = llm.generate([1, 2, 3], GREEDY)
    fail["now"] = True
    with pytest.raises(RuntimeError, match="a learner's bug"):
        llm.generate([1, 2, 3], GREEDY)
    fail["now"] = False
    assert llm.block_pool.get_num_free_blocks() == 31
    assert llm.generate([1, 2, 3], GREEDY)[0].outputs[0].token_ids == expected[0].outputs[0].token_ids


def test_learners_parts_take_the_place_of_ours_and_show_in_the_trace(tiny):
    class MyPool(BlockPool):
        def get_new_blocks(self, num_blocks):
            return super().get_new_blocks(num_blocks)

    class MyManager(KVCacheManager):
        pass

    class MyScheduler(Scheduler):
        pass

    llm = LLM(
        tiny,
        record=True,
        num_gpu_blocks_override=32,
        block_size=4,
        block_pool=MyPool,
        kv_cache_manager=MyManager,
        scheduler=MyScheduler,
    )
    llm.generate(prompts(8, 3), GREEDY)
    allocated = [e for e in llm.trace.events if e.kind == "blocks_allocated"]
    assert all(e.source.endswith("MyPool.get_new_blocks") for e in allocated)
    assert_matches_live_engine(replay(llm.trace), llm)


def test_restoring_a_snapshot_undoes_everything_since(tiny):
    llm = LLM(tiny, record=True, num_gpu_blocks_override=24, block_size=4)
    for prompt in prompts(9, 3, longest=20):
        llm.add_request(prompt, GREEDY)
    for _ in range(3):
        llm.step()
    snapshot = llm.snapshot()
    state = replay(llm.trace)

    def finish():
        tokens = {}
        while llm.has_unfinished_requests():
            for output in llm.step():
                tokens[output.request_id] = output.outputs[0].token_ids
        return tokens

    first = finish()
    llm.generate([9] * 60, GREEDY)  # overwrites whatever lay in the blocks
    llm.restore(snapshot)
    assert replay(llm.trace) == state
    assert_matches_live_engine(state, llm)
    assert finish() == first
    llm.restore(snapshot)
    assert finish() == first


def test_a_branch_goes_through_the_same_steps_and_can_change_a_knob(tiny):
    llm = LLM(tiny, record=True, num_gpu_blocks_override=32, block_size=4)
    llm.add_request([1] * 9, GREEDY)
    llm.step()
    llm.add_request([2] * 5, GREEDY)
    for _ in range(4):
        llm.step()
    driver = EngineDriver(llm)
    branch = driver.branch(3)
    assert replay(branch.trace, branch.num_events(3)).tables == replay(llm.trace, driver.num_events(3)).tables
    assert branch.llm.model is llm.model
    assert driver.branch(3, num_gpu_blocks_override=16).llm.num_blocks == 16
    while branch.step():
        pass
    while driver.step():
        pass
    assert branch.state().requests["B"].token_ids == driver.state().requests["B"].token_ids


def test_a_table_edited_by_hand_changes_what_the_model_reads_and_undo_recovers(tiny):
    llm = LLM(tiny, record=True, num_gpu_blocks_override=32, block_size=4)
    a, b = prompts(10, 1)[0] + [1] * 12, [200] * 20
    llm.add_request(a, GREEDY)
    llm.add_request(b, GREEDY)
    llm.step()
    driver = EngineDriver(llm)
    snapshot = llm.snapshot()
    honest = contiguous_greedy(llm.model, a, 12)
    driver.apply(Remap("A", 0, llm.tables["B"].block_ids[0]))
    assert driver.state().edited
    assert driver.state().tables["A"][0] == llm.tables["B"].block_ids[0]
    while driver.step():
        pass
    assert driver.state().requests["A"].token_ids[len(a) :] != honest
    llm.restore(snapshot)
    driver.position = driver.num_steps
    while driver.step():
        pass
    assert not driver.state().edited
    assert driver.state().requests["A"].token_ids[len(a) :] == honest
    with pytest.raises(PagedlabError, match="not running"):
        driver.apply(Remap("A", 0, 1))


def test_several_drivers_keep_their_own_place_in_one_engine(tiny):
    llm = LLM(tiny, record=True, num_gpu_blocks_override=32, block_size=4)
    llm.add_request([1, 2, 3], GREEDY)
    one, two = EngineDriver(llm), EngineDriver(llm)
    assert one.step() and one.step()
    assert (one.position, two.position, two.num_steps) == (2, 0, 2)
    assert two.step() and two.position == 1 and llm.step_count == 2
    assert two.step_back() and not two.step_back()
    with pytest.raises(PagedlabError, match="no step 9"):
        two.seek(9)


def test_buffers_keep_their_addresses(tiny):
    seen = set()

    def attention(query, kv_pool, block_tables, seq_lens, query_start_loc, **kwargs):
        seen.add((block_tables.data_ptr(), seq_lens.data_ptr(), query_start_loc.data_ptr(), kv_pool.key.data_ptr()))
        return paged_attention(query, kv_pool, block_tables, seq_lens, query_start_loc, **kwargs)

    llm = LLM(tiny, num_gpu_blocks_override=32, block_size=4, attention=attention)
    llm.generate(prompts(11, 3), GREEDY)
    assert len(seen) == llm.model.config.num_layers


def test_an_engine_without_a_recorder_has_no_trace_and_says_how_to_get_one(tiny):
    with pytest.raises(PagedlabError, match="record=True"):
        _ = LLM(tiny, num_gpu_blocks_override=8).trace


def test_chat_uses_the_template(tiny):
    llm = LLM(tiny, num_gpu_blocks_override=64, block_size=4)
    output = llm.chat([{"role": "user", "content": "hi"}], GREEDY)
    assert output.prompt_token_ids == llm.tokenizer.chat([{"role": "user", "content": "hi"}])
    assert torch.is_inference_mode_enabled() is False


# ------------------------------------------------------------------------------- odd names, odd values, odd moments


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_what_an_interrupted_step_did_not_write_is_never_found_again(tiny, error):
    left = [1]

    def attention(*args):
        if left[0]:
            left[0] -= 1
            raise error("in the middle of a step")
        return paged_attention(*args)

    llm = LLM(tiny, attention=attention, record=True, num_gpu_blocks_override=32, block_size=4)
    prompt = list(range(40, 57))
    with pytest.raises(error):
        llm.generate([prompt], GREEDY)
    output = llm.generate([prompt], GREEDY)[0]
    assert output.num_cached_tokens == 0
    assert output.outputs[0].token_ids == contiguous_greedy(tiny.model, prompt, GREEDY.max_tokens)
    assert_matches_live_engine(replay(llm.trace), llm)


def test_of_two_requests_in_an_interrupted_step_one_can_be_aborted_and_the_other_one_go_on(tiny):
    left = [1]

    def attention(*args):
        if left[0]:
            left[0] -= 1
            raise KeyboardInterrupt
        return paged_attention(*args)

    llm = LLM(tiny, attention=attention, record=True, num_gpu_blocks_override=32, block_size=4)
    prompt = list(range(40, 57))
    llm.add_request(prompt, GREEDY)
    llm.add_request(prompt, GREEDY)  # hits the blocks that the first one is to fill in the same step
    with pytest.raises(KeyboardInterrupt):
        llm.step()
    llm.abort_request("A")
    while llm.has_unfinished_requests():
        outputs = llm.step()
    assert outputs[0].outputs[0].token_ids == contiguous_greedy(tiny.model, prompt, GREEDY.max_tokens)
    assert_matches_live_engine(replay(llm.trace), llm)


@pytest.mark.parametrize("era", ["v1", "paper"])
@pytest.mark.parametrize("first, second", [(("A", 2), ("A/0", 1)), (("A/1", 1), ("A", 2)), (("A", 1), ("A/1", 1))])
def test_no_request_may_be_named_like_an_answer_of_another_one(tiny, era, first, second):
    llm = LLM(tiny, record=True, num_gpu_blocks_override=32, block_size=4, era=era)
    llm.add_request("abcdefgh", SamplingParams(n=first[1], max_tokens=4), request_id=first[0])
    before = len(llm.trace.events)
    with pytest.raises(PagedlabError, match="already an unfinished request"):
        llm.add_request("xyz", SamplingParams(n=second[1]), request_id=second[0])
    with pytest.raises(PagedlabError, match="already an unfinished request"):
        llm.add_request([], request_id=second[0])  # nor may it be told as refused: the trace would mix them up
    assert len(llm.trace.events) == before
    while llm.has_unfinished_requests():
        llm.step()
    llm.add_request("xyz", SamplingParams(n=second[1], max_tokens=2), request_id=second[0])


def test_names_given_by_hand_do_not_get_in_the_way_of_names_given_by_the_engine(tiny):
    llm = LLM(tiny, num_gpu_blocks_override=32, block_size=4)
    llm.add_request("ab", request_id="B")
    assert [llm.add_request("ab"), llm.add_request("ab")] == ["C", "D"]


@pytest.mark.parametrize(
    "fields",
    [{"temperature": "1"}, {"temperature": None}, {"top_p": "1"}, {"top_p": None}, {"stop": None}, {"stop": 5},
     {"stop_token_ids": 5}, {"stop_token_ids": "5"}, {"stop_token_ids": [5.0]}, {"stop_token_ids": [True]},
     {"stop_token_ids": [None]}],
    ids=str,
)
def test_sampling_params_of_a_wrong_type_are_refused(fields):
    with pytest.raises(PagedlabError, match=next(iter(fields))):
        SamplingParams(**fields)


def test_numbers_of_numpy_and_torch_are_taken_and_become_plain_ones(tiny):
    n = np.int64
    knobs = {"block_size": n(4), "num_gpu_blocks_override": np.uint8(32), "max_num_seqs": n(3), "seed": np.int32(5),
             "gpu_memory_utilization": np.float32(0.5), "max_model_len": torch.tensor(64)}  # fmt: skip
    llm = LLM(tiny, record=True, **knobs)
    params = SamplingParams(max_tokens=n(4), top_k=n(5), seed=n(1), n=n(2), temperature=np.float32(1))
    output = llm.generate(np.array([3, 5, 7]), params)[0]
    plain = SamplingParams(max_tokens=4, top_k=5, seed=1, n=2, temperature=1.0)
    again = LLM(tiny, block_size=4, num_gpu_blocks_override=32).generate([3, 5, 7], plain)[0]
    assert [o.token_ids for o in output.outputs] == [o.token_ids for o in again.outputs]
    json.dumps(llm.trace.header), [json.dumps(to_dict(event)) for event in llm.trace.events]
    paper = LLM(tiny, era="paper", preemption="swap", swap_space=n(1), num_cpu_blocks_override=n(9), block_size=n(4),
                num_gpu_blocks_override=n(32))  # fmt: skip
    (beams,) = paper.beam_search([[3, 5, 7]], BeamSearchParams(beam_width=n(2), max_tokens=n(3)))
    assert len(beams.sequences) == 2


@pytest.mark.parametrize("name", ["block_size", "max_num_seqs", "max_model_len", "num_gpu_blocks_override", "seed"])
@pytest.mark.parametrize("value", [True, np.True_, np.float64(4), "4"], ids=repr)
def test_a_count_that_is_no_whole_number_is_refused(tiny, name, value):
    with pytest.raises(PagedlabError, match=f"{name} is .*must be a whole number"):
        LLM(tiny, **{name: value})


def test_true_is_no_token_id_no_block_and_no_temperature(tiny):
    llm = LLM(tiny, num_gpu_blocks_override=16)
    llm.add_request([1, 2, 3])
    llm.step()
    for wrong in (lambda: llm.generate([1, True]), lambda: llm.remap("A", True, 1), lambda: llm.remap("A", 0, True),
                  lambda: SamplingParams(temperature=True), lambda: whole(True, "step")):  # fmt: skip
        with pytest.raises(PagedlabError):
            wrong()


@pytest.mark.parametrize("name", ["block_pool", "kv_cache_manager", "scheduler", "block_table", "attention"])
@pytest.mark.parametrize("part", [5, "LRU", BlockPool(4)], ids=lambda part: type(part).__name__)
def test_a_part_that_makes_nothing_is_refused(tiny, name, part):
    """An object in place of its class is the usual slip."""
    with pytest.raises(PagedlabError, match=f"{name} is .*; give a class"):
        LLM(tiny, num_gpu_blocks_override=4, **{name: part})


@pytest.mark.parametrize("executor", [5, "counting", object(), CountingExecutor])
def test_what_is_no_executor_is_refused(executor):
    with pytest.raises(PagedlabError, match="give an object that does what pagedlab.executor.Executor says"):
        LLM(executor=executor)


@pytest.mark.parametrize("record", ["x", 1, None, []], ids=repr)
def test_record_is_true_or_false(tiny, record):
    with pytest.raises(PagedlabError, match="record is .*must be True"):
        LLM(tiny, record=record)


@pytest.mark.parametrize(
    "knobs",
    [
        {"gpu_memory_utilization": "1"},
        {"gpu_memory_utilization": None},
        {"seed": "x"},
        {"seed": None},
        {"num_gpu_blocks_override": 10**12},
        {"block_size": 10**15, "num_gpu_blocks_override": 2},
        {"block_size": 10**30},
        {"max_num_seqs": 10**30},
        {"max_num_batched_tokens": 10**30},
        {"device_memory": 10**30},
        {"gpu_memory_utilization": True},
        {"enable_prefix_caching": "no"},
    ],
    ids=str,
)
def test_knobs_of_a_wrong_type_or_beyond_all_memory_are_refused(tiny, knobs):
    with pytest.raises(PagedlabError):
        LLM(tiny, **knobs)


@pytest.mark.parametrize("temperature", [5e-324, 1e-50, 1e-38])
def test_a_temperature_near_zero_takes_the_likeliest_token(tiny, temperature):
    llm = LLM(tiny, num_gpu_blocks_override=32, block_size=4)
    cold = llm.generate("ab", SamplingParams(temperature=temperature, max_tokens=3))[0]
    assert cold.outputs[0].token_ids == llm.generate("ab", SamplingParams(max_tokens=3))[0].outputs[0].token_ids


@pytest.mark.parametrize("prompt", [None, 5, b"ab", {1: 2}, "\ud800", [1.0], [True], [None]], ids=ascii)
def test_what_is_no_prompt_is_refused_and_nothing_is_queued(tiny, prompt):
    llm = LLM(tiny, num_gpu_blocks_override=32, block_size=4, record=True)
    with pytest.raises(PagedlabError):
        llm.add_request(prompt)
    with pytest.raises(PagedlabError):
        llm.generate(prompt)
    assert not llm.trace.events and not llm.inputs and not llm.has_unfinished_requests()


def test_token_ids_may_be_numpys_or_torchs(tiny, tmp_path):
    llm = LLM(tiny, num_gpu_blocks_override=32, block_size=4, record=True)
    expected = llm.generate([65, 66, 67], GREEDY)[0].outputs
    for ids in (torch.tensor([65, 66, 67]), torch.tensor([65, 66, 67]).numpy()):
        assert llm.generate(ids, GREEDY)[0].outputs == expected
    load(save(llm.trace, tmp_path / "run.jsonl"))


@pytest.mark.parametrize(
    "more", [{"request_id": 5}, {"request_id": "\ud800"}, {"salt": 5}, {"salt": "\ud800"}], ids=ascii
)
def test_a_name_or_salt_that_is_no_text_is_refused_and_nothing_is_queued(tiny, more):
    llm = LLM(tiny, num_gpu_blocks_override=32, block_size=4, record=True)
    with pytest.raises(PagedlabError, match=next(iter(more))):
        llm.add_request("ab", **more)
    assert not llm.trace.events and not llm.inputs and not llm.has_unfinished_requests()


def test_sampling_params_that_are_none_are_refused(tiny):
    llm = LLM(tiny, num_gpu_blocks_override=32, block_size=4)
    with pytest.raises(PagedlabError, match="SamplingParams"):
        llm.generate("ab", {"n": 2})


@pytest.mark.parametrize("place", [(0, 1.5), (0, "3"), ("0", 3), (None, 3)], ids=str)
def test_a_remap_to_what_is_no_number_is_refused(tiny, place):
    llm = LLM(tiny, num_gpu_blocks_override=32, block_size=4, record=True)
    llm.add_request("hello world", GREEDY)
    llm.step()
    with pytest.raises(PagedlabError):
        llm.remap("A", *place)
    assert not replay(llm.trace).edited


def test_a_snapshot_that_lies_ahead_brings_its_events_back(tiny):
    llm = LLM(tiny, num_gpu_blocks_override=32, block_size=4, record=True)
    llm.add_request("hello world", GREEDY)
    llm.step()
    early = llm.snapshot()
    driver = EngineDriver(llm)
    while driver.position < 5:
        driver.step()
    late, events = llm.snapshot(), list(llm.trace.events)
    llm.restore(early)
    assert driver.position == 1 and driver.state() == replay(llm.trace)
    llm.add_request("another way")
    llm.step()
    llm.restore(late)
    assert llm.trace.events == events
    assert_matches_live_engine(replay(llm.trace), llm)


def test_a_snapshot_of_another_engine_is_refused(tiny):
    llm, other = (LLM(tiny, num_gpu_blocks_override=32, block_size=4) for _ in range(2))
    llm.add_request("hello world", GREEDY)
    llm.step()
    for wrong in (other.snapshot(), None):
        with pytest.raises(PagedlabError, match="snapshot"):
            llm.restore(wrong)
    assert llm.has_unfinished_requests()


@pytest.mark.parametrize("changes", [{"record": False}, {"model": "tiny-random"}], ids=str)
def test_a_second_run_cannot_change_what_makes_it_one(tiny, changes):
    llm = LLM(tiny, num_gpu_blocks_override=32, block_size=4, record=True)
    with pytest.raises(PagedlabError):
        llm.rerun(0, **changes)


def test_an_entry_pointed_at_a_free_block_reads_the_same_bytes_after_a_restore_and_in_a_branch(tiny):
    llm = LLM(tiny, record=True, num_gpu_blocks_override=12, block_size=4, enable_prefix_caching=False)
    llm.add_request([9] * 10, SamplingParams(max_tokens=3, ignore_eos=True))
    llm.add_request([200] * 9, SamplingParams(max_tokens=20, ignore_eos=True))
    driver = EngineDriver(llm)
    while "A" in llm.tables or not llm.step_count:
        driver.step()
    used, never = replay(llm.trace).free[0], replay(llm.trace).free[-1]  # A's words lie in the first one still
    assert used in llm.used_blocks and never not in llm.used_blocks
    answers = {}
    for block in (used, never):
        driver.apply(Remap("B", 0, block))
        for _ in range(6):
            driver.step()
        answers[block] = driver.state().requests["B"].token_ids
        driver.undo()
    at = driver.position
    llm.add_request([77] * 25, SamplingParams(max_tokens=2, ignore_eos=True))  # overwrites what is free
    while "C" not in {e.request_id for e in llm.trace.events if e.kind == "request_finished"}:
        driver.step()
    for block, expected in answers.items():
        branch = driver.branch(at)
        branch.llm.abort_request("C")
        branch.apply(Remap("B", 0, block))
        for _ in range(6):
            branch.step()
        assert branch.state().requests["B"].token_ids == expected, block


def test_a_restored_engine_has_the_bytes_of_free_blocks_too(tiny):
    llm = LLM(tiny, num_gpu_blocks_override=12, block_size=4, enable_prefix_caching=False)
    llm.add_request([9] * 10, SamplingParams(max_tokens=2, ignore_eos=True))
    llm.add_request([200] * 9, SamplingParams(max_tokens=20, ignore_eos=True))
    while "A" in llm.tables or not llm.step_count:
        llm.step()
    before, snapshot = llm.kv_pool.data.clone(), llm.snapshot()
    llm.add_request([77] * 25, SamplingParams(max_tokens=2, ignore_eos=True))
    for _ in range(4):
        llm.step()
    assert not torch.equal(llm.kv_pool.data, before)
    llm.restore(snapshot)
    assert torch.equal(llm.kv_pool.data, before)


def test_two_tokens_for_one_slot_leave_the_later_one_there(tiny):
    from pagedlab.executor.runner import last_one_writes

    slots = np.array([3, 5, 3, 7, 5, 3])
    last_one_writes(slots)
    assert slots.tolist() == [-1, -1, -1, 7, 5, 3]
    last_one_writes(slots)
    llm = LLM(tiny, record=True, num_gpu_blocks_override=12, block_size=4)
    for token in (9, 200):
        llm.add_request([token] * 6, SamplingParams(max_tokens=8, ignore_eos=True))
    llm.step()
    alone = LLM(llm, num_gpu_blocks_override=12, block_size=4)
    alone.add_request([200] * 6, SamplingParams(max_tokens=8, ignore_eos=True))
    alone.step(), alone.step()
    block = llm.tables["B"].block_ids[1]
    llm.remap("A", 1, block)
    llm.step()  # A and B write into the same slot: B comes later
    theirs = alone.kv_pool.data[:, :, alone.tables["A"].block_ids[1], 2]
    torch.testing.assert_close(llm.kv_pool.data[:, :, block, 2], theirs)


def test_a_branch_can_give_a_request_another_prompt(tiny):
    llm = LLM(tiny, record=True, num_gpu_blocks_override=32, block_size=4)
    llm.add_request("hello world", GREEDY)
    driver = EngineDriver(llm)
    driver.step(), driver.step()
    llm.add_request("another one", GREEDY)
    while driver.step():
        pass
    assert driver.prompts(1) == ["A"] and driver.prompts(2) == ["A", "B"]
    branch = driver.branch(3, replace={"B": [5, 6, 7]})
    assert branch.state().requests["B"].token_ids[:3] == [5, 6, 7]
    assert branch.state().requests["A"].token_ids == replay(llm.trace, driver.num_events(3)).requests["A"].token_ids
    with pytest.raises(PagedlabError, match="Up to step 1 no request 'B' was queued; there are: A."):
        driver.branch(1, replace={"B": "x"})


@pytest.mark.parametrize("changes", [{"replace": 5}, {"replace": "A"}, {"victim": 5}, {"victim": []}], ids=str)
def test_a_branch_with_a_change_of_a_wrong_type_is_refused(tiny, changes):
    llm = LLM(tiny, record=True, num_gpu_blocks_override=32, block_size=4)
    llm.add_request([1] * 9, GREEDY)
    llm.step()
    with pytest.raises(PagedlabError):
        EngineDriver(llm).branch(1, **changes)


def test_an_answers_text_is_what_it_was_at_its_step_whenever_it_is_read(tiny):
    llm = LLM(tiny)
    llm.add_request("ab", SamplingParams(max_tokens=6, ignore_eos=True))
    answers = []
    while llm.has_unfinished_requests():
        answers += [output.outputs[0] for output in llm.step()]
    later = pickle.loads(pickle.dumps(answers))
    ids = answers[-1].token_ids
    expected = [tiny.executor.tokenizer.decode(ids[:n]) for n in range(1, 7)]
    assert [answer.text for answer in answers] == expected == [answer.text for answer in later]
    assert answers == later and f"text={expected[2]!r}" in repr(answers[2]) and copy.copy(answers[0]) == answers[0]
    with pytest.raises(AttributeError, match="'_Answer' object has no attribute 'words'"):
        answers[0].words  # noqa: B018
