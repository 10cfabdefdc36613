"""vLLM that schedules a step ahead of its tokens, in this process: is it followed rightly?

On a CPU vLLM refuses to, so its refusal is undone as for the recordings (``tools/record_vllm.py``); the scheduler, the
queue of batches and the runner's asynchronous path are its own. While a batch is under way the trace is behind vLLM's
objects on purpose; so the two are compared at rest: vLLM's own pause lets what is under way come in, and schedules
nothing.
"""

import contextlib
import random

import pytest
from conftest import engine
from own_objects import Twin, workload

from pagedlab import watch
from pagedlab.errors import PagedlabError
from pagedlab.parity.side_by_side import side_by_side
from pagedlab.trace.invariants import first_broken
from pagedlab.viz import memory_map


@pytest.fixture(scope="session")
def ahead(root):
    """A vLLM with asynchronous scheduling, beside the synchronous one of the other tests. Both stay to the end: an
    engine that goes takes with it what the process has once (vLLM's parallel groups)."""
    import torch
    from vllm.platforms.cpu import CpuPlatform

    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(root / "tools")
        from record_vllm import asynchronous_on_cpu

        for name in ("Event", "Stream", "current_stream", "stream"):
            patch.setattr(torch.cuda, name, getattr(torch.cuda, name))  # put back at the end
        refusal = vars(CpuPlatform)["check_and_update_config"]
        asynchronous_on_cpu()
        made = engine(async_scheduling=True)
        CpuPlatform.check_and_update_config = refusal  # for the engines of others
        yield made


@pytest.fixture
def core(ahead):
    return ahead.llm_engine.engine_core.engine_core


@pytest.fixture
def driver(ahead, core):
    if core.scheduler.get_num_unfinished_requests() == 0:
        ahead.reset_prefix_cache()
    return watch.of(ahead, anew=True)


@contextlib.contextmanager
def at_rest(core, ahead):
    """Everything that was scheduled has come in, and nothing more is scheduled."""
    from vllm.v1.core.sched.interface import PauseState

    core.scheduler.set_pause_state(PauseState.PAUSED_ALL)
    while core.batch_queue:
        ahead.llm_engine.step()
    yield
    core.scheduler.set_pause_state(PauseState.UNPAUSED)


def test_it_is_vllms_asynchronous_scheduler_with_two_batches_under_way(core, driver):
    assert type(core.scheduler).__name__ == "AsyncScheduler" and core.batch_queue_size == 2
    assert driver.trace.header["async_scheduling"] is True
    driver.add_request("One block is not enough", max_tokens=6, ignore_eos=True)
    most = 0
    while driver.step():
        most = max(most, len(core.batch_queue))
    assert most == 1  # after a call: the other one has come in


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_at_rest_the_trace_is_what_vllms_own_objects_are(ahead, core, driver, seed):
    twin, work, rng = Twin(driver, core), workload(seed, 12), random.Random(seed)
    step = compared = under_way = 0
    while work or driver.has_unfinished_requests():
        while work and work[0][0] <= step:
            _, prompt, settings = work.pop(0)
            driver.add_request(prompt, **settings)
        if driver.has_unfinished_requests():
            driver.seek(driver.num_steps)
            assert driver.step()
        step += 1
        if rng.random() < 0.3:
            under_way += len(core.batch_queue)
            with at_rest(core, ahead):
                assert twin.differences() == [], f"step {step} of workload {seed}"
                compared += bool(core.scheduler.running)
    with at_rest(core, ahead):
        assert twin.differences() == []
    assert compared > 10 and under_way > 10  # with requests that run, and batches that were under way before the rest
    assert twin.seen["request_preempted"] and twin.seen["block_touched"] and twin.seen["block_evicted"]
    assert first_broken(driver.trace) is None


def test_a_click_schedules_at_most_one_step_ahead_and_the_past_schedules_nothing(core, driver, monkeypatch):
    counted, real = [], core.scheduler.schedule
    monkeypatch.setattr(core.scheduler, "schedule", lambda *a, **k: counted.append(1) or real(*a, **k))
    name = driver.add_request("The operating system maps virtual pages to", max_tokens=8, ignore_eos=True)
    lab = memory_map(driver, select=name)
    while lab.forward():
        assert len(counted) <= lab.num_steps + 1  # at most one step ahead of what is shown
    done = len(counted)
    assert lab.back(5) == 5 and lab.forward(5) == 5 and lab.forward() == 0 and len(counted) == done >= 8
    request = lab.state.requests[name]
    assert request.finish_reason == "length" and len(request.token_ids) - request.num_prompt_tokens == 8
    assert any(mark.text == "live · vLLM 0.32.0 · CPU · fp32" for mark in lab.view().marks)


def test_both_modes_choose_the_same_tokens(driver, vllm_llm):
    """The asynchronous engine's trace, against what the synchronous one answers."""
    from vllm import SamplingParams

    prompts = ["a page that nobody has touched " * 9, "the library opens at nine", "One block is not enough"]
    for i, prompt in enumerate(prompts):
        driver.add_request(prompt, max_tokens=20, ignore_eos=True, request_id=f"r{i}")
    while driver.step():
        pass
    params = SamplingParams(temperature=0, max_tokens=20, ignore_eos=True)
    for i, output in enumerate(vllm_llm.generate(prompts, params, use_tqdm=False)):
        sampled = [e for e in driver.trace.events if e.kind == "token_sampled" and e.request_id == f"r{i}"]
        assert [e.token_id for e in sampled] == list(output.outputs[0].token_ids)
        assert [e.position for e in sampled] == list(range(len(output.prompt_token_ids), sampled[-1].position + 1))


def test_ours_beside_it_is_refused_in_words(driver):
    with pytest.raises(PagedlabError, match="a step's plan and its tokens are of two steps.* async_scheduling=False"):
        side_by_side(driver)
