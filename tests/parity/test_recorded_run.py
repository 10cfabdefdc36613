"""The recorded run of the whole vLLM beside our scheduler, manager and pool."""

import dataclasses

import pytest

from pagedlab.engine import LLM, SamplingParams
from pagedlab.errors import PagedlabError
from pagedlab.kv import BlockPool, KVCacheManager
from pagedlab.parity.recorded_run import VLLMRun
from pagedlab.parity.side_by_side import side_by_side
from pagedlab.trace import Trace, TraceDriver, load, recorded, save
from pagedlab.trace import events as ev
from pagedlab.viz import step_both


class InOrder(KVCacheManager):
    def free(self, request):
        blocks = self.req_to_blocks.pop(request.request_id)
        del self.num_cached_block[request.request_id]
        self.block_pool.free_blocks(blocks)  # ours: from the last to the first


class Forgetful(BlockPool):
    def get_cached_block(self, block_hash):
        return None


@pytest.fixture(scope="module")
def both():
    return side_by_side(recorded("vllm-sync"))


def test_in_no_step_of_the_whole_vllm_does_ours_decide_otherwise(both):
    assert len(both.ours) == len(both.theirs) == 127 and not both.error
    assert both.different_steps == []


def test_what_is_hard_was_in_it(both):
    assert [name for step in both.theirs for name in step["preempted"]] == ["E", "D", "E"]
    assert [name for step in both.theirs for name in step["resumed"]] == ["D", "E", "E"]
    assert sum(n > 0 for step in both.theirs for n in step["new"].values()) == 7
    assert any(not step["scheduled"] for step in both.theirs), "a step in which nobody is there"


@pytest.mark.parametrize("parts", [{"kv_cache_manager": InOrder}, {"block_pool": Forgetful}])
def test_another_rule_on_our_side_is_found(parts):
    assert side_by_side(recorded("vllm-sync"), **parts).different_steps


class Failing(BlockPool):
    def touch(self, blocks):
        raise RuntimeError("no")


@pytest.mark.parametrize("pool, num_ours", [(BlockPool, 127), (Failing, 1)])
def test_by_its_driver_it_is_the_same_also_where_our_side_fails(both, pool, num_ours):
    other = side_by_side(TraceDriver(load(recorded("vllm-sync"))), block_pool=pool)
    assert other.theirs == both.theirs and not other.grown and not other.can_step
    assert other.error == ("" if pool is BlockPool else "RuntimeError: no")
    assert len(other.ours) >= num_ours and (other.ours == both.ours) == (pool is BlockPool)
    lab = step_both(other)
    assert lab.forward(200) <= 127 and not lab.can_step and not lab.live


@pytest.mark.parametrize("change", ["tables", "free", "scheduled", "new", "running"])
def test_another_decision_on_their_side_is_found(both, change):
    trace = load(recorded("vllm-sync"))
    theirs = list(VLLMRun(trace, "it").read_on())
    assert theirs == both.theirs and all(theirs[34][change] for change in ("tables", "free", "scheduled", "running"))
    theirs[34] |= {change: {"E": 1} if change in ("tables", "scheduled", "new") else [99]}
    other = type(both)(both.header, theirs, both.trace, both.ours)
    assert other.different_steps == [34] and other.different(34) == [change]


def test_the_lab_steps_it_and_says_which_vllm_it_was(both):
    lab = step_both(both, names=("vLLM", "pagedlab"), step=35)
    assert "recorded · vLLM 0.32.0" in lab.svg() and not lab.different


def test_what_ours_cannot_repeat_is_refused_in_words(tmp_path):
    with pytest.raises(PagedlabError, match="async_scheduling=False"):
        side_by_side(recorded("vllm-async"))
    llm = LLM(device="counting", num_gpu_blocks_override=9, block_size=4, max_model_len=32, record=True)
    llm.generate([1, 2, 3], SamplingParams(max_tokens=2))
    with pytest.raises(PagedlabError, match="no recorded run of vLLM"):
        side_by_side(save(llm.trace, tmp_path / "ours.jsonl"))
    trace = load(recorded("vllm-sync"))
    found = ev.PoolFound(step=3, free=tuple(range(1, 14)), ref_cnt=(0,) * 14)
    with pytest.raises(PagedlabError, match="mid-run"):
        list(VLLMRun(Trace(trace.header, [*trace.events, found]), "it").read_on())
    off = [dataclasses.replace(e, reason="abort") if e.kind == "request_finished" else e for e in trace.events]
    with pytest.raises(PagedlabError, match="it cannot be repeated: request '[A-E]' was called off"):
        list(VLLMRun(Trace(trace.header, off), "it").read_on())


def test_a_header_without_its_knobs_and_a_trace_that_is_cut_off_do_not_end_in_a_traceback(tmp_path):
    trace = load(recorded("vllm-sync"))
    bare = Trace(trace.header | {"config": {"num_blocks": 14, "block_size": 32}}, trace.events)
    with pytest.raises(PagedlabError, match="it must be"):
        side_by_side(save(bare, tmp_path / "bare.jsonl"))
    cut = Trace(trace.header, trace.events[: trace.step_ends()[20]])
    short = side_by_side(save(cut, tmp_path / "cut.jsonl"))
    assert len(short.theirs) == 21 and not short.different_steps


@pytest.mark.slow
def test_our_own_model_chooses_the_same_tokens(both):
    """The whole of ours beside the whole of vLLM: prompts, knobs and weights are the same, and so is every token."""
    h, trace = both.header, load(recorded("vllm-sync"))
    knobs = {name: h[name] for name in ("block_size", "max_num_seqs", "max_num_batched_tokens", "max_model_len")}
    llm = LLM("smollm2", device="cpu", dtype="float32", num_gpu_blocks_override=h["num_blocks"], record=True, **knobs)
    to_come, step = list(h["requests"]), 0
    while to_come or llm.has_unfinished_requests():
        while to_come and to_come[0]["arrive"] <= step:
            item = to_come.pop(0)
            params = SamplingParams(max_tokens=item["max_tokens"], ignore_eos=True)
            llm.add_request(item["tokens"], params, request_id=item["req"])
        if llm.has_unfinished_requests():
            llm.step()
        step += 1
    chosen, theirs = (
        {(e.request_id, e.position): e.token_id for e in one.events if isinstance(e, ev.TokenSampled)}
        for one in (llm.trace, trace)
    )
    assert len(theirs) == 316 and chosen == theirs
