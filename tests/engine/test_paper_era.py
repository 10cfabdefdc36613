"""The paper's era: forks and copies change memory and never the answer, and what makes no sense is refused with nothing
lost."""

from __future__ import annotations

import pytest
import torch
from contiguous import contiguous_logits

from pagedlab.attention import paged_attention
from pagedlab.bench import fragmentation, preemption, sharing
from pagedlab.engine import LLM, BeamSearchParams, CopyOnWrite, EngineDriver, SamplingParams
from pagedlab.errors import PagedlabError
from pagedlab.kv.paper import BlockAllocator, BlockSpaceManager
from pagedlab.trace import load, replay, save
from pagedlab.trace.invariants import broken
from pagedlab.trace.sharing import sharing as sharing_of

PROMPTS = [[1, 2, 3, 4, 5, 6, 7, 8, 9], [9, 8, 7, 6, 5, 4, 3, 2], [3] * 14]
SAMPLING = SamplingParams(n=4, temperature=1.0, seed=5, max_tokens=10, ignore_eos=True)


def paper(tiny, **knobs) -> LLM:
    return LLM(tiny, **{"era": "paper", "record": True, "num_gpu_blocks_override": 100, "block_size": 4} | knobs)


def tokens_of(outputs) -> list:
    return [[answer.token_ids for answer in output.outputs] for output in outputs]


def contiguous_beams(model, prompt: list[int], width: int, max_tokens: int) -> list[tuple[list[int], float]]:
    """Beam search without pages, without a cache, without an end of text."""
    beams = [([], 0.0)]
    for _ in range(max_tokens):
        grown = []
        for tokens, so_far in beams:
            logprobs = torch.log_softmax(contiguous_logits(model, prompt + tokens)[-1], dim=-1)
            values, ids = logprobs.topk(2 * width)
            grown += [([*tokens, t], so_far + v) for v, t in zip(values.tolist(), ids.tolist(), strict=True)]
        beams = sorted(grown, key=lambda beam: -beam[1])[:width]
    return beams


# ------------------------------------------------------------------------------------------------------ the answers


@pytest.mark.parametrize("knobs", [{}, {"block_size": 1}, {"block_size": 3}, {"block_size": 16}], ids=str)
def test_n_answers_from_forks_are_those_of_n_separate_requests(tiny, knobs):
    llm = paper(tiny, **knobs)
    apart = LLM(tiny, num_gpu_blocks_override=400, block_size=4, enable_prefix_caching=False)
    assert tokens_of(llm.generate(PROMPTS, SAMPLING)) == tokens_of(apart.generate(PROMPTS, SAMPLING))
    assert llm.block_pool.get_num_free_blocks() == 100


def test_the_prompt_is_computed_once_and_of_a_shared_tail_n_minus_1_copies_are_made(tiny):
    llm = paper(tiny)
    llm.generate(PROMPTS[0], SAMPLING)  # 9 tokens: two full blocks, and one slot of a third
    figures = sharing_of(llm.trace)
    assert (figures.copies, figures.prompt_tokens_computed) == (3, 9)
    llm.generate(PROMPTS[1], SAMPLING)  # 8 tokens: nobody writes into a shared block
    assert sharing_of(llm.trace).copies == 3
    after_fork = replay(llm.trace, llm.trace.step_ends()[0])
    assert [after_fork.ref_cnt[b] for b in after_fork.tables["A/0"]] == [4, 4, 4]
    after_copies = replay(llm.trace, llm.trace.step_ends()[1])
    assert [after_copies.ref_cnt[b] for b in after_copies.tables["A/3"]] == [4, 4, 1]


def test_a_copy_leaves_the_bytes_of_all_others_untouched(tiny):
    llm = paper(tiny)
    llm.add_request(PROMPTS[0], SAMPLING)
    llm.step()
    tail = llm.tables["A/0"].block_ids[2]
    before = llm.kv_pool.data[:, :, tail].clone()
    llm.step()
    for name in ("A/0", "A/1", "A/2", "A/3"):
        mine = llm.kv_pool.data[:, :, llm.tables[name].block_ids[2]]
        assert torch.equal(mine[:, :, 0], before[:, :, 0])  # the prompt's last token, copied or not
        assert not torch.equal(mine[:, :, 1], before[:, :, 1])  # and its own next one
    assert len({llm.tables[name].block_ids[2] for name in ("A/0", "A/1", "A/2", "A/3")}) == 4


@pytest.mark.parametrize("width", [1, 2, 4])
@pytest.mark.parametrize("knobs", [{}, {"num_gpu_blocks_override": 26}], ids=str)
def test_beams_are_those_of_a_search_without_sharing(tiny, width, knobs):
    llm = paper(tiny, **knobs)
    outputs = llm.beam_search(PROMPTS, BeamSearchParams(beam_width=width, max_tokens=7, ignore_eos=True))
    for prompt, output in zip(PROMPTS, outputs, strict=True):
        expected = contiguous_beams(llm.model, prompt, width, 7)
        assert [s.tokens for s in output.sequences] == [prompt + tokens for tokens, _ in expected]
        assert [s.cum_logprob for s in output.sequences] == pytest.approx([value for _, value in expected], abs=1e-4)
    assert llm.block_pool.get_num_free_blocks() == llm.num_blocks


def test_a_beam_that_reaches_the_end_of_text_is_kept_and_takes_nobodys_place(tiny):
    llm = paper(tiny)
    free = llm.beam_search(PROMPTS[0], BeamSearchParams(beam_width=3, max_tokens=5, ignore_eos=True))[0].sequences
    end = free[0].tokens[len(PROMPTS[0]) + 1]  # the second token of the best answer
    before, llm.tokenizer.eos_token_ids = llm.tokenizer.eos_token_ids, {end}
    try:
        found = llm.beam_search(PROMPTS[0], BeamSearchParams(beam_width=3, max_tokens=5, length_penalty=4.0))[
            0
        ].sequences
        short = llm.beam_search(PROMPTS[0], BeamSearchParams(beam_width=3, max_tokens=5, length_penalty=0.0))[
            0
        ].sequences
    finally:
        llm.tokenizer.eos_token_ids = before
    stopped = [s for s in short if s.finish_reason == "stop"]
    assert stopped and all(s.tokens[-1] == end and end not in s.tokens[len(PROMPTS[0]) : -1] for s in stopped)
    assert [len(s.tokens) for s in found if s.finish_reason == "length"] == [len(PROMPTS[0]) + 5] * 3
    assert llm.block_pool.get_num_free_blocks() == 100


def test_a_search_whose_only_beam_ends_is_over(tiny):
    llm = paper(tiny)
    first = llm.beam_search(PROMPTS[0], BeamSearchParams(beam_width=1, max_tokens=4, ignore_eos=True))[0].sequences[0]
    best = contiguous_logits(llm.model, PROMPTS[0])[-1].topk(2).indices.tolist()
    assert first.tokens[len(PROMPTS[0])] == best[0]
    before, llm.tokenizer.eos_token_ids = llm.tokenizer.eos_token_ids, set(best)
    try:
        output = llm.beam_search(PROMPTS[0], BeamSearchParams(beam_width=1, max_tokens=4))[0].sequences
    finally:
        llm.tokenizer.eos_token_ids = before
    assert [(s.tokens, s.finish_reason) for s in output] == [([*PROMPTS[0], best[0]], "stop")]
    assert not llm.has_unfinished_requests() and llm.block_pool.get_num_free_blocks() == 100


def test_a_fork_by_hand_goes_on_from_where_its_parent_stands(tiny):
    llm = paper(tiny)
    params = SamplingParams(temperature=1.0, seed=3, max_tokens=9, ignore_eos=True)
    alone = LLM(tiny, num_gpu_blocks_override=64, block_size=4).generate(PROMPTS[2], params)[0].outputs[0].token_ids
    llm.add_request(PROMPTS[2], params)
    for _ in range(3):
        llm.step()
    assert llm.fork_request("A") == "A/1"
    while llm.has_unfinished_requests():
        outputs = llm.step()
    answers = [answer.token_ids for answer in outputs[0].outputs]
    assert answers[0] == alone
    assert answers[1][:3] == alone[:3] and len(answers[1]) == 9 and answers[1] != alone
    assert llm.block_pool.get_num_free_blocks() == 100


# --------------------------------------------------------------------------------------------------------- preemption


def test_swapping_computes_nothing_again_and_recomputing_moves_nothing(tiny):
    work = {}
    for how in ("swap", "recompute"):
        llm = paper(tiny, num_gpu_blocks_override=20, preemption=how)
        assert tokens_of(llm.generate(PROMPTS, SAMPLING)) == tokens_of(paper(tiny).generate(PROMPTS, SAMPLING))
        work[how] = preemption.work_done(llm)
        assert work[how]["preemptions"] > 0
    assert work["swap"]["recomputed_tokens"] == 0 and work["swap"]["swapped_bytes"] > 0
    assert work["recompute"]["recomputed_tokens"] > 0 and work["recompute"]["swapped_bytes"] == 0


def test_a_full_cpu_pool_falls_back_to_recomputation_and_says_so(tiny):
    llm = paper(tiny, num_gpu_blocks_override=20, preemption="swap", num_cpu_blocks_override=2)
    with pytest.warns(RuntimeWarning, match="recomputed instead of swapped: the CPU pool has only 2 free blocks"):
        outputs = llm.generate(PROMPTS, SAMPLING)
    assert tokens_of(outputs) == tokens_of(paper(tiny).generate(PROMPTS, SAMPLING))
    preemptions = [e for e in llm.trace.events if e.kind == "request_preempted"]
    assert {e.how for e in preemptions} == {"recompute"} and all("2 free blocks" in e.reason for e in preemptions)


def test_a_swapped_request_can_be_aborted_and_leaves_nothing_behind(tiny):
    llm = paper(tiny, num_gpu_blocks_override=20, preemption="swap")
    names = [llm.add_request(prompt, SAMPLING) for prompt in PROMPTS]
    while not llm.scheduler.swapped:
        llm.step()
    swapped = llm.scheduler.swapped[0].request_id
    assert replay(llm.trace).swapped and replay(llm.trace).cpu.tables
    llm.abort_request(swapped)
    assert replay(llm.trace).cpu.free == llm.kv_cache_manager.cpu_allocator.get_free_block_ids()[::-1]
    for name in set(names) - {swapped}:
        if name in llm.groups:
            llm.abort_request(name)
    assert llm.block_pool.get_num_free_blocks() == 20
    assert llm.kv_cache_manager.cpu_allocator.get_num_free_blocks() == 20
    state = replay(llm.trace)
    assert not state.tables and not state.cpu.tables and not state.swapped


# ---------------------------------------------------------------------------------------------- time travel and parts


def test_restoring_a_snapshot_undoes_swaps_forks_and_copies(tiny):
    llm = paper(tiny, num_gpu_blocks_override=20, preemption="swap")
    for prompt in PROMPTS:
        llm.add_request(prompt, SAMPLING)
    while not llm.scheduler.swapped:
        llm.step()
    snapshot, state = llm.snapshot(), replay(llm.trace)

    def finish():
        tokens = {}
        while llm.has_unfinished_requests():
            tokens |= {o.request_id: tokens_of([o]) for o in llm.step()}
        return tokens

    first = finish()
    llm.restore(snapshot)
    assert replay(llm.trace) == state
    assert finish() == first


def test_a_branch_can_change_how_room_is_made_and_even_the_era(tiny):
    llm = paper(tiny, num_gpu_blocks_override=24)
    for prompt in PROMPTS:
        llm.add_request(prompt, SAMPLING)
    llm.step()
    llm.step()
    driver = EngineDriver(llm)
    swapping = driver.branch(2, preemption="swap")
    assert swapping.llm.config.preemption == "swap" and swapping.state().tables == driver.state().tables
    assert type(driver.branch(0, era="v1").llm) is LLM
    done = {}
    for one in (driver, swapping):
        while one.step():
            pass
        done[one] = {r: s.token_ids for r, s in one.state().requests.items()}
    assert done[driver] == done[swapping]
    assert swapping.state().counts.get("blocks_swapped_out")


def test_learners_parts_take_the_place_of_ours_and_show_in_the_trace(tiny):
    class MyAllocator(BlockAllocator):
        pass

    class MyManager(BlockSpaceManager):
        def append_slot(self, sequence):
            return super().append_slot(sequence)

    llm = paper(tiny, block_pool=MyAllocator, kv_cache_manager=MyManager)
    llm.generate(PROMPTS[0], SAMPLING)
    assert type(llm.block_pool) is MyAllocator
    copied = [e for e in llm.trace.events if e.kind == "block_copied"]
    assert copied and all(e.source.endswith("MyManager.append_slot") for e in copied)


def test_a_saved_trace_replays_to_the_same_state(tiny, tmp_path):
    llm = paper(tiny, num_gpu_blocks_override=20, preemption="swap")
    llm.generate(PROMPTS, SAMPLING)
    kinds = {e.kind for e in llm.trace.events}
    assert {"request_forked", "block_copied", "blocks_swapped_out", "blocks_swapped_in"} <= kinds
    assert replay(load(save(llm.trace, tmp_path / "run.jsonl.gz"))) == replay(llm.trace)


# --------------------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    "knobs, message",
    [
        ({"era": "future"}, 'allowed are "v1" and "paper"'),
        ({"era": "paper", "preemption": "pray"}, 'allowed are "recompute" and "swap"'),
        ({"preemption": "swap"}, 'needs era="paper"'),
        ({"era": "paper", "preemption": "swap", "swap_space": 0}, "swap_space is 0, so there is nowhere to swap to"),
        ({"era": "paper", "preemption": "swap", "num_cpu_blocks_override": 0}, "num_cpu_blocks_override is 0"),
        ({"era": "paper", "preemption": "swap", "swap_space": 1e-9}, "would get 0 blocks"),
        ({"era": "paper", "preemption": "swap", "swap_space": 1e12}, "this machine's memory holds"),
        ({"era": "paper", "preemption": "swap", "num_cpu_blocks_override": 10**12}, "this machine's memory holds"),
        ({"era": "paper", "swap_space": -1}, "a number of GiB, 0 or more"),
        ({"era": "paper", "swap_space": float("nan")}, "a number of GiB, 0 or more"),
    ],
    ids=str,
)
def test_knobs_that_make_no_sense_are_refused(knobs, message):
    with pytest.raises(PagedlabError, match=message):
        LLM("tiny-random", **{"num_gpu_blocks_override": 16} | knobs)


def test_the_swap_space_is_given_in_gib_in_blocks_or_follows_the_pool(tiny):
    per_block = tiny.kv_pool.bytes_per_token * 4
    assert paper(tiny).num_cpu_blocks == 0
    assert paper(tiny, preemption="swap").num_cpu_blocks == 100
    assert paper(tiny, preemption="swap", num_cpu_blocks_override=7).num_cpu_blocks == 7
    assert paper(tiny, preemption="swap", swap_space=12.5 * per_block / (1 << 30)).num_cpu_blocks == 12


@pytest.mark.parametrize(
    "values, message",
    [
        ({"beam_width": 0, "max_tokens": 4}, "beam_width is 0"),
        ({"beam_width": True, "max_tokens": 4}, "beam_width is True"),
        ({"beam_width": 2, "max_tokens": 0}, "max_tokens is 0"),
        ({"beam_width": 2, "max_tokens": 4, "length_penalty": float("nan")}, "length_penalty"),
    ],
    ids=str,
)
def test_a_search_that_makes_no_sense_is_refused(values, message):
    with pytest.raises(PagedlabError, match=message):
        BeamSearchParams(**values)


@pytest.mark.parametrize(
    "params, knobs, message",
    [
        (BeamSearchParams(beam_width=30, max_tokens=10), {}, "may need 92 blocks .* Lower beam_width"),
        (SamplingParams(n=40, max_tokens=10), {}, "The pool is too small"),
        (SamplingParams(n=4, max_tokens=4), {"max_num_seqs": 3}, "at most 3 sequences can run"),
        (SamplingParams(n=4, max_tokens=20), {"max_num_batched_tokens": 60}, "in one step of 8"),
        (SamplingParams(max_tokens=398), {}, "The pool is too small"),
    ],
    ids=str,
)
def test_what_the_pool_can_never_hold_is_refused_and_the_engine_stays_usable(tiny, params, knobs, message):
    llm = paper(tiny, **knobs)
    with pytest.raises(PagedlabError, match=message):
        llm.add_request(PROMPTS[0], params)
    with pytest.raises(PagedlabError, match=message):
        llm.generate([PROMPTS[1], PROMPTS[0]], params)
    assert not llm.has_unfinished_requests()
    assert len(llm.generate(PROMPTS[0], SamplingParams(max_tokens=3, ignore_eos=True))[0].outputs[0].token_ids) == 3
    replay(llm.trace)


@pytest.mark.parametrize("how", ["recompute", "swap"])
def test_the_widest_request_that_is_accepted_also_finishes(tiny, how):
    llm = paper(tiny, num_gpu_blocks_override=18, preemption=how)
    wide = {"max_tokens": 12, "ignore_eos": True}  # 14 blocks, and one more for each of four
    with pytest.raises(PagedlabError, match="may need 18 blocks"):
        llm.add_request(PROMPTS[0], SamplingParams(n=4, **wide | {"max_tokens": 13}))
    output = llm.generate([PROMPTS[0]] * 3, SamplingParams(n=4, temperature=1.0, seed=1, **wide))
    assert all(len(answer.token_ids) == 12 for one in output for answer in one.outputs)
    assert len(llm.beam_search([PROMPTS[0]] * 2, BeamSearchParams(beam_width=4, max_tokens=12))) == 2
    assert llm.block_pool.get_num_free_blocks() == 18


def test_forking_what_does_not_run_is_refused_and_nothing_is_lost(tiny):
    llm = paper(tiny, num_gpu_blocks_override=20, preemption="swap")
    with pytest.raises(PagedlabError, match="'A' is unknown and cannot be forked; running are: none"):
        llm.fork_request("A")
    llm.generate([1, 2, 3], SamplingParams(max_tokens=2))
    with pytest.raises(PagedlabError, match="'A' is finished"):
        llm.fork_request("A")
    llm.add_request(PROMPTS[0], SamplingParams(n=2, max_tokens=9))
    with pytest.raises(PagedlabError, match="'B/0' is waiting"):
        llm.fork_request("B/0")
    llm.step()
    for _ in range(2):
        llm.fork_request("B/0")
    with pytest.raises(PagedlabError, match="The pool is too small"):
        llm.fork_request("B/0")
    llm.abort_request("B")
    llm.add_request(PROMPTS[0], BeamSearchParams(beam_width=2, max_tokens=9))
    llm.step()
    with pytest.raises(PagedlabError, match="is a beam"):
        llm.fork_request("C/0")
    llm.abort_request("C")
    assert llm.block_pool.get_num_free_blocks() == 20
    replay(llm.trace)


def test_v1_cannot_search_and_says_what_can(tiny):
    with pytest.raises(PagedlabError, match='era="paper"'):
        tiny.beam_search([1, 2], BeamSearchParams(beam_width=2, max_tokens=2))
    with pytest.raises(PagedlabError, match='era="paper"'):
        tiny.fork_request("A")
    with pytest.raises(PagedlabError, match='era="paper"'):
        tiny.generate([1, 2], BeamSearchParams(beam_width=2, max_tokens=2))
    with pytest.raises(PagedlabError, match="takes BeamSearchParams"):
        paper(tiny).beam_search([1, 2], SamplingParams())


def test_a_part_that_raises_leaves_the_engine_usable(tiny):
    fail = {"now": False}

    def attention(*args, **kwargs):
        if fail["now"]:
            raise RuntimeError("a learner's bug")
        return paged_attention(*args, **kwargs)

    llm = paper(tiny, attention=attention)
    expected = tokens_of(llm.generate(PROMPTS, SAMPLING))
    fail["now"] = True
    with pytest.raises(RuntimeError, match="a learner's bug"):
        llm.generate(PROMPTS, SAMPLING)
    fail["now"] = False
    assert llm.block_pool.get_num_free_blocks() == 100
    assert tokens_of(llm.generate(PROMPTS, SAMPLING)) == expected


# -------------------------------------------------------------------------------------------------------- the figures


def test_both_eras_beside_each_other(tiny):
    rows = sharing.compare_eras(tiny, [5] * 14, n=4, max_tokens=8, block_size=4)
    separate, v1, forked, beams = rows.values()
    assert separate["token_ids"] == v1["token_ids"] == forked["token_ids"]
    assert [row["prompt_tokens_recomputed"] for row in (separate, v1, forked)] == [42, 6, 0]
    assert [row["copies"] for row in (separate, v1, forked)] == [0, 0, 3]
    assert v1["blocks"] < separate["blocks"] and forked["blocks"] < separate["blocks"] > beams["blocks"]
    assert separate["saved"] == 0 < forked["saved"] < beams["saved"] < 1


def test_the_benchmarks_print_their_tables(capsys, monkeypatch):
    monkeypatch.setattr(fragmentation, "NUM_SLOTS", 4800)
    rows = fragmentation.run(requests=100)["workloads"]["ShareGPT"]["rows"]
    assert [kind for kind in rows] == [*fragmentation.memories()]
    assert rows["paged"]["percent"]["token"] > 90 > rows["oracle, first fit"]["percent"]["token"]
    assert "38.2" in capsys.readouterr().out
    result = preemption.run(model="tiny-random")
    assert result["workload"]["swap"]["tokens"] == result["workload"]["recompute"]["tokens"]
    assert "token for token" in capsys.readouterr().out
    with pytest.raises(PagedlabError, match="at least 100"):
        fragmentation.run(requests=5)
    with pytest.raises(PagedlabError, match="nothing to share"):
        sharing.run(model="tiny-random", n=1)


def test_a_workload_has_the_papers_means():
    load = fragmentation.workload(500, 161.31, 337.99, 1.0, 3)
    assert sum(p for p, _ in load) / 500 == pytest.approx(161.31, abs=0.05)
    assert sum(o for _, o in load) / 500 == pytest.approx(337.99, abs=0.05)
    assert max(p + o for p, o in load) <= fragmentation.MAX_MODEL_LEN


def test_a_fit_finds_what_its_figures_were_made_of():
    rows = [[1.0, x, y] for x, y in ((1, 5), (7, 2), (3, 90), (40, 40))]
    assert preemption.fit(rows, [2 + 3 * x + 0.5 * y for _, x, y in rows]) == pytest.approx([2, 3, 0.5])
    assert preemption.fit(rows, [2 + 3 * x for _, x, _ in rows]) == pytest.approx([2, 3, 0], abs=1e-6)


@pytest.mark.slow
def test_the_real_model_answers_four_times_in_fewer_blocks_than_four_requests_need():
    rows = sharing.run(model="smollm2", max_tokens=16)["rows"]
    separate, _, forked, beams = rows.values()
    assert separate["token_ids"] == forked["token_ids"]
    assert forked["blocks"] < separate["blocks"] and beams["blocks"] < separate["blocks"]


def test_a_fork_beyond_max_num_seqs_is_refused_and_the_engine_goes_on(tiny):
    llm = LLM(tiny, era="paper", num_gpu_blocks_override=32, block_size=4, max_num_seqs=2)
    for prompt in ("hello", "world"):
        llm.add_request(prompt, SamplingParams(max_tokens=6))
    llm.step()
    with pytest.raises(PagedlabError, match="max_num_seqs"):
        llm.fork_request("A")
    while llm.has_unfinished_requests():
        llm.step()
    assert llm.block_pool.get_num_free_blocks() == 32


def test_a_run_with_a_fork_by_hand_cannot_be_branched_to_v1(tiny):
    llm = LLM(tiny, era="paper", num_gpu_blocks_override=32, block_size=4, record=True)
    llm.add_request("hello", SamplingParams(max_tokens=6))
    llm.step()
    llm.fork_request("A")
    with pytest.raises(PagedlabError, match="V1 .* cannot fork"):
        llm.rerun(2, era="v1")


@pytest.mark.parametrize("logical_block", [0, 2])
@pytest.mark.parametrize("preemption", ["recompute", "swap"])
def test_replay_follows_a_request_that_was_edited_by_hand_through_fork_copy_and_swap(tiny, logical_block, preemption):
    llm = LLM(tiny, era="paper", num_gpu_blocks_override=16, block_size=4, record=True, preemption=preemption)
    for prompt in ("abcdefghij", "hello world"):
        llm.add_request(prompt, SamplingParams(max_tokens=16, ignore_eos=True))
    llm.step()
    llm.remap("B", logical_block, 9)
    llm.fork_request("B")
    while llm.has_unfinished_requests():
        state = replay(llm.trace)
        assert state.tables == {name: table.block_ids for name, table in llm.tables.items()}
        assert state.ref_cnt == [block.ref_cnt for block in llm.block_pool.blocks]
        assert state.free == llm.block_pool.get_free_block_ids()[::-1]
        llm.step()
    kinds = {event.kind for event in llm.trace.events}
    assert {"block_copied", "blocks_swapped_out" if preemption == "swap" else "request_preempted"} <= kinds
    assert replay(llm.trace).ref_cnt == [0] * 16


# ------------------------------------------------------------------------------------------- without copy-on-write


def test_without_copy_on_write_the_last_writer_overwrites_the_others_and_undo_recovers(tiny):
    llm = paper(tiny)
    llm.add_request(PROMPTS[0], SAMPLING)  # 9 tokens: one slot of the third block, which four answers share
    driver = EngineDriver(llm)
    driver.step()
    honest = driver.branch(1)
    driver.apply(CopyOnWrite(False))
    assert driver.state().edited and not driver.state().copy_on_write
    driver.step()
    state = driver.state()
    assert {table[-1] for table in state.tables.values()} == {state.tables["A/0"][-1]}
    tables = {s.request_id: llm.kv_cache_manager.get_block_table(s) for s in llm.requests.values()}
    assert state.tables == tables and state.free == llm.block_pool.get_free_block_ids()[::-1]
    # What lies in the slot is what the last of the batch wrote there: as in a run where it alone wrote.
    honest.step()
    theirs = honest.llm.kv_pool.data[:, :, honest.state().tables["A/3"][-1], 1]
    torch.testing.assert_close(llm.kv_pool.data[:, :, state.tables["A/0"][-1], 1], theirs)
    assert state.slots[state.tables["A/0"][-1]][1].request_id == "A/3"
    sentences = " ".join(broken(state))
    assert "A/0 reads 1 token" in sentences and "A/3 wrote there" in sentences
    driver.undo()
    for _ in range(6):
        driver.step(), honest.step()
    honest.step_back()
    got, expected = ({r: q.token_ids for r, q in d.state().requests.items()} for d in (driver, honest))
    assert got == expected and not driver.state().edited


def test_copy_on_write_switched_on_again_copies_again_and_a_branch_lives_through_both(tiny):
    llm = paper(tiny)
    llm.add_request(PROMPTS[0], SAMPLING)
    driver = EngineDriver(llm)
    driver.step()
    driver.apply(CopyOnWrite(False))
    driver.step()
    driver.apply(CopyOnWrite(True))
    driver.step()
    kinds = [e.kind for e in llm.trace.events]
    assert kinds.count("copy_on_write_switched") == 2 and "block_copied" in kinds[kinds.index("step_ended") + 1 :]
    assert driver.branch(3).state().tables == driver.state().tables
    with pytest.raises(PagedlabError, match="V1 never copies"):
        driver.branch(3, era="v1")


def test_what_is_no_edit_and_a_manager_that_cannot_are_refused(tiny):
    class Mine:
        def __init__(self, *args, **kwargs):
            self.inner = BlockSpaceManager(*args, **kwargs)

        def __getattr__(self, name):
            if name in ("inner", "set_copy_on_write"):
                raise AttributeError(name)
            return getattr(self.inner, name)

    driver = EngineDriver(paper(tiny, kv_cache_manager=Mine))
    for edit, words in ((CopyOnWrite(False), "cannot switch copy-on-write"), ("off", "is no edit")):
        with pytest.raises(PagedlabError, match=words):
            driver.apply(edit)
    assert not driver.can_undo
