"""The other labs over a live vLLM: prefixes, preemption, and ours beside it. vLLM's own steps are counted."""

import pytest
from own_objects import workload

from pagedlab import watch
from pagedlab.errors import PagedlabError
from pagedlab.kv import KVCacheManager
from pagedlab.parity.side_by_side import side_by_side
from pagedlab.parity.twin import twin
from pagedlab.trace.invariants import first_broken
from pagedlab.viz import memory_map, preemption, prefix_hits, step_both

COMMON = "the same words again and again and again " * 10
CROWD = [COMMON + name for name in ("once", "twice", "three times")] + ["the library opens at nine and closes at " * 9]


def to_the_end(lab):
    while lab.forward():
        pass


def texts(lab):
    return [mark.text for mark in lab.view().marks if mark.text]


# ----------------------------------------------------------------------------------------------------- prefix


def test_a_click_in_the_prefix_lab_is_one_step_of_vllm(anew, steps_of_vllm):
    anew.add_request(COMMON, max_tokens=4, ignore_eos=True)
    lab = prefix_hits(anew, COMMON + "and then")
    before = len(steps_of_vllm)
    for clicks in range(1, 5):
        assert lab.forward() == 1 and len(steps_of_vllm) == before + clicks
    assert lab.back(4) == 4 and lab.forward(4) == 4 and lab.forward() == 0 and len(steps_of_vllm) == before + 4
    assert "live · vLLM 0.32.0 · CPU · fp32" in texts(lab) and not lab.panes()


@pytest.mark.parametrize("ending", ["", "and then", " something else " * 20])
def test_what_the_walk_finds_is_what_vllm_then_finds(anew, ending):
    anew.add_request(COMMON, max_tokens=2, ignore_eos=True)
    lab = prefix_hits(anew)
    to_the_end(lab)
    prompt = COMMON + ending
    expected = sum(len(found.token_ids) for found in lab.walk(prompt) if found.outcome == "hit")
    assert expected > 0
    name = anew.add_request(prompt, max_tokens=1, ignore_eos=True)
    lab.forward()
    [looked_up] = [e for e in anew.trace.events if e.kind == "prefix_looked_up" and e.request_id == name]
    assert looked_up.num_tokens == expected


# -------------------------------------------------------------------------------------------------- preemption


@pytest.fixture
def crowded(anew):
    """More than fits: somebody will have to go."""
    for prompt in CROWD:
        anew.add_request(prompt, max_tokens=60, ignore_eos=True)
    return anew


def test_ours_is_preempted_where_vllm_is_and_a_click_is_one_step_of_each(crowded, steps_of_vllm):
    before, ours = len(steps_of_vllm), twin(crowded, ignore_eos=True)
    lab = preemption(crowded, ours)
    assert lab.run_names == ["vLLM", "pagedlab"] and lab.live
    while lab.can_step:
        done = len(steps_of_vllm) - before, ours.step_count
        lab.forward()
        assert (len(steps_of_vllm) - before, ours.step_count) == (done[0] + 1, done[1] + 1)
    count = len(steps_of_vllm)
    aways = [[(a.step, a.request_id, a.num_tokens, a.back) for a in history.aways] for history in lab.histories]
    assert aways[0] == aways[1] and len(aways[0]) >= 1
    assert crowded.num_steps == ours.step_count == count - before
    lab.rewind(), lab.forward(), lab.back(3)
    assert len(steps_of_vllm) == count
    lab.rewind()
    assert any("live · vLLM 0.32.0 · CPU · fp32" in text for text in texts(lab)) and list(lab.panes()) == ["victims"]


def test_beside_the_papers_swap_the_victims_tokens_are_carried_and_not_computed_again(crowded):
    lab = preemption(crowded, twin(crowded, ignore_eos=True, era="paper", preemption="swap"))
    to_the_end(lab)
    assert lab.run_names == ["recompute", "swap"]
    theirs, ours = lab.price(0), lab.price(1)
    assert theirs.preemptions and theirs.recomputed and not theirs.carried
    assert ours.preemptions and ours.carried and not ours.recomputed
    assert first_broken(crowded.trace) is None


def test_a_step_beyond_the_end_says_how_long_the_runs_are(anew):
    anew.add_request("short", max_tokens=3, ignore_eos=True)
    ours = twin(anew, ignore_eos=True)
    with pytest.raises(PagedlabError, match="There is no step 9; the runs have steps 0 to 3"):
        preemption(anew, ours, step=9)
    assert anew.num_steps == 3 and ours.step_count == 0


def test_a_twin_is_of_a_watched_vllm_that_has_not_begun(anew, vllm_llm):
    for other in (vllm_llm, 3, None):
        with pytest.raises(PagedlabError, match="twin takes what pagedlab.watch.of"):
            twin(other)
    with pytest.raises(PagedlabError, match="A twin begins where vLLM begins"):
        twin(anew)
    anew.add_request(COMMON, max_tokens=3, ignore_eos=True)
    anew.step()
    with pytest.raises(PagedlabError, match="make the twin before the first step"):
        twin(anew)


# ------------------------------------------------------------------------------------------------ side by side


@pytest.mark.parametrize("seed", [4, 5])
def test_in_every_step_of_a_live_vllm_ours_decides_the_same(anew, steps_of_vllm, seed):
    """Requests come while it runs; some end by a stop token, some are preempted."""
    lab, work = step_both(side_by_side(anew)), workload(seed, 10)
    before = len(steps_of_vllm)
    assert lab.live and lab.num_steps == 0 and not lab.can_step
    while work or lab.can_step:
        while work and (work[0][0] <= lab.num_steps or not lab.can_step):
            _, prompt, settings = work.pop(0)
            anew.add_request(prompt, **settings)
        at = lab.num_steps
        assert lab.forward() == 1 and lab.num_steps == at + 1 == len(steps_of_vllm) - before
        assert lab.different == [], f"step {lab.position}: {lab.different}"
    assert not lab.both.error and lab.num_steps > 50
    reasons = {e.reason for e in anew.trace.events if e.kind == "request_finished"}
    assert reasons == {"length", "stop"}
    assert lab.back(5) == 5 and lab.forward(5) == 5 and len(steps_of_vllm) - before == lab.num_steps
    shown = texts(lab)
    assert "live · vLLM 0.32.0 · CPU · fp32" in shown and "live · CPU, no model" in shown and lab.panes() == {}


def test_a_lab_with_the_same_cursor_that_goes_back_leaves_nothing_to_step(anew, steps_of_vllm):
    anew.add_request("One block is not enough", max_tokens=3, ignore_eos=True)
    lab, other = step_both(side_by_side(anew)), memory_map(anew)
    to_the_end(lab)
    before = len(steps_of_vllm)
    other.back(2)
    assert not lab.can_step and lab.forward() == 0 and len(steps_of_vllm) == before == 3


class InOrder(KVCacheManager):
    def free(self, request):
        self.block_pool.free_blocks(self.req_to_blocks.pop(request.request_id))
        del self.num_cached_block[request.request_id]


def test_another_rule_on_our_side_shows_in_the_step_where_it_matters(anew):
    lab = step_both(side_by_side(anew, kv_cache_manager=InOrder))
    for prompt in CROWD[:2]:
        anew.add_request(prompt, max_tokens=3, ignore_eos=True)
    to_the_end(lab)
    anew.add_request("and one after them", max_tokens=1, ignore_eos=True)
    lab.forward()
    assert lab.first_difference == lab.num_steps == 4 and "free" in lab.different
    assert list(lab.panes()) == ["differences"]


def test_what_a_cell_does_meanwhile_is_followed_and_so_is_a_cache_that_is_dropped(anew, vllm_llm):
    from vllm import SamplingParams

    lab = step_both(side_by_side(anew))
    for text in (COMMON, COMMON):
        vllm_llm.generate([text], SamplingParams(temperature=0, max_tokens=3, ignore_eos=True), use_tqdm=False)
        assert vllm_llm.reset_prefix_cache()
    assert lab.grown()
    lab.read_on()
    assert lab.num_steps == anew.num_steps == 6 and lab.first_difference is None and not lab.both.error
    assert [[*step["new"].values()] for step in lab.both.theirs if step["new"]] == [[0], [0]]  # tokens found


def test_a_request_that_is_called_off_ends_our_side_in_words(anew, core, vllm_llm):
    lab = step_both(side_by_side(anew))
    anew.add_request("Never to be finished", max_tokens=50, ignore_eos=True)
    anew.add_request("To be finished", max_tokens=4, ignore_eos=True)
    lab.forward(2)
    internal = next(iter(core.scheduler.requests))
    core.abort_requests([internal])
    vllm_llm.llm_engine.output_processor.abort_requests([internal], internal=True)
    to_the_end(lab)
    assert lab.num_steps == 4 and len(lab.both.ours) == 2
    assert "request 'A' was called off (abort)" in lab.text()


def test_a_vllm_found_with_cached_blocks_is_refused_with_what_to_do(watched, vllm_llm):
    watched.add_request(COMMON, max_tokens=2, ignore_eos=True)
    while watched.can_step:
        watched.step()
    with pytest.raises(PagedlabError, match=r"begins in mid-run.*reset_prefix_cache\(\).*anew=True"):
        side_by_side(watch.of(vllm_llm, anew=True))


# ------------------------------------------------------------------------------------------------------- anew


def test_watched_anew_the_driver_before_is_a_recording(watched, vllm_llm, steps_of_vllm):
    watched.add_request("One block is not enough", max_tokens=3, ignore_eos=True)
    old = memory_map(watched)
    old.forward()
    again = watch.of(vllm_llm, anew=True)
    count, steps = len(steps_of_vllm), watched.num_steps
    assert 0 < count < 3
    assert not watched.can_step and old.forward() == 0 and len(steps_of_vllm) == count
    assert any(text.startswith("recorded · vLLM 0.32.0") for text in texts(old))
    with pytest.raises(PagedlabError, match="This watch has ended"):
        watched.add_request("again")
    lab = memory_map(again)
    to_the_end(lab)
    assert len(steps_of_vllm) == 3 and watched.num_steps == steps
    assert [r.finish_reason for r in lab.state.requests.values()] == ["length"]
