"""vLLM in this process, under the labs."""

import importlib.util
import inspect
from pathlib import Path

import pytest
from own_objects import Twin, serve

from pagedlab import watch
from pagedlab.errors import PagedlabError
from pagedlab.trace import TraceDriver, load, replay, save
from pagedlab.trace.invariants import first_broken
from pagedlab.viz import memory_map


def test_a_click_runs_vllms_model_once_and_the_past_runs_nothing(watched, steps_of_vllm):
    name = watched.add_request("The operating system maps virtual pages to", max_tokens=6, ignore_eos=True)
    lab = memory_map(watched, select=name)
    for clicks in range(len(steps_of_vllm) + 1, 7):
        lab.forward()
        assert len(steps_of_vllm) == clicks
    assert lab.back(3) == 3 and lab.forward(3) == 3 and len(steps_of_vllm) == 6
    assert lab.forward() == 0 and not lab.can_step and len(steps_of_vllm) == 6
    assert name in lab.state.requests and lab.state.requests[name].finish_reason == "length"


@pytest.mark.parametrize("seed, count", [(1, 8), (2, 10), (3, 10)])
def test_at_every_step_the_trace_is_what_vllms_own_objects_are(watched, core, seed, count):
    twin, moments = serve(watched, core, seed, count)
    assert moments > 50
    assert first_broken(watched.trace) is None


def test_the_workloads_had_what_is_hard(watched, core):
    """Else the test above would say little."""
    twin = Twin(watched, core)
    for kind in ("request_preempted", "block_touched", "block_evicted", "allocation_failed"):
        assert twin.seen[kind] >= 3, kind
    reasons = {request.finish_reason for request in twin.state.requests.values()}
    assert reasons >= {"length"}


def test_generate_in_a_cell_is_in_the_trace_too(watched, vllm_llm):
    from vllm import SamplingParams

    before = watched.num_steps
    [output] = vllm_llm.generate(["One block is not"], SamplingParams(temperature=0, max_tokens=5))
    assert watched.num_steps == before + 5
    sampled = [e.token_id for e in watched.trace.events if e.kind == "token_sampled"][-5:]
    assert sampled == list(output.outputs[0].token_ids)


def test_a_request_that_is_aborted_gives_its_blocks_back_in_the_trace(watched, core, vllm_llm):
    name = watched.add_request("Never to be finished", max_tokens=50, ignore_eos=True)
    watched.seek(watched.num_steps)
    assert watched.step() and replay(watched.trace).tables[name]
    [internal] = core.scheduler.requests
    core.abort_requests([internal])
    state = replay(watched.trace)
    assert state.requests[name].finish_reason == "abort" and not state.tables and len(state.free) == 13
    vllm_llm.llm_engine.output_processor.abort_requests([internal], internal=True)


def test_who_watches_in_mid_run_finds_everything_as_it_is(watched, core, vllm_llm):
    for prompt in ("a page that nobody has touched " * 12, "a page that nobody has touched " * 12 + "again", "short"):
        watched.add_request(prompt, max_tokens=30, ignore_eos=True)
    for _ in range(7):
        watched.seek(watched.num_steps)
        watched.step()
    watched.watch.close()
    del core.scheduler.pagedlab_watch
    again = watch.of(vllm_llm)
    twin = Twin(again, core)
    assert twin.differences() == [] and twin.state.step == 0 and len(twin.state.running) == 3
    assert {kind: twin.seen[kind] for kind in ("pool_found", "request_found")} == {"pool_found": 1, "request_found": 3}
    while again.has_unfinished_requests():
        assert again.step() and twin.differences() == []


def test_watched_no_more_vllm_is_as_it_was(watched, core):
    watched.watch.close()
    for thing in (core.scheduler, core.scheduler.kv_cache_manager, core.scheduler.kv_cache_manager.block_pool):
        functions = [value for value in vars(thing).values() if inspect.isfunction(value)]
        assert [function for function in functions if "pagedlab" in function.__module__] == []
    del core.scheduler.pagedlab_watch


def test_what_a_watched_engine_cannot_do_is_not_offered_and_is_refused(watched):
    lab = memory_map(watched)
    assert list(lab.panes()) == ["code", "follow", "find"]
    with pytest.raises(PagedlabError, match="cannot be edited"):
        lab.remap(0, 3)
    with pytest.raises(PagedlabError, match="cannot be branched"):
        lab.branch(prompt="other")


def test_the_badge_names_the_engine_and_the_code_pane_shows_vllms_own_line(watched):
    watched.add_request("Whose line is it?", max_tokens=2, ignore_eos=True)
    lab = memory_map(watched)
    lab.seek(lab.num_steps)
    lab.forward()
    texts = [mark.text for mark in lab.view().marks]
    assert "live · vLLM 0.32.0 · CPU · fp32" in texts
    shown = str(lab.pane("code"))
    assert "vllm/v1" in shown or "vllm.v1" in shown


def test_a_run_can_be_kept_and_opened_elsewhere(watched, tmp_path):
    trace = load(save(watched.trace, tmp_path / "vllm.jsonl.gz"))
    lab = memory_map(TraceDriver(trace))
    lab.seek(lab.num_steps)
    assert any(mark.text.startswith("recorded · vLLM 0.32.0 · CPU · fp32 · 20") for mark in lab.view().marks)


def test_a_cache_that_keeps_a_window_only_cannot_be_watched(monkeypatch):
    """A running request gives blocks back there, and its table points at the null block: no event of ours says so."""
    import torch
    from vllm.v1.kv_cache_interface import KVCacheConfig, KVCacheGroupSpec, SlidingWindowSpec

    from pagedlab.parity import vllm_side
    from pagedlab.watch.hooks import Hooks

    knobs = {"max_model_len": 128, "max_num_seqs": 4, "max_num_batched_tokens": 64, "enable_caching": True}
    header = knobs | {"num_blocks": 40, "block_size": 4}
    Hooks(vllm_side.make_scheduler(header), list).close()
    spec = SlidingWindowSpec(block_size=4, num_kv_heads=1, head_size=64, dtype=torch.float32, sliding_window=8)
    groups = [KVCacheGroupSpec(["layer"], spec)]
    monkeypatch.setattr(vllm_side, "_kv_cache_config", lambda num_blocks, _: KVCacheConfig(num_blocks, [], groups))
    with pytest.raises(PagedlabError, match="it runs with blocks that SlidingWindowManager keeps, where it should be"):
        Hooks(vllm_side.make_scheduler(header), list)


@pytest.mark.parametrize("number, module", [("0", "gpu_model_runner"), ("1", "gpu.model_runner")])
def test_the_model_runner_that_events_name_is_the_one_that_vllm_takes(monkeypatch, number, module):
    from vllm import envs

    from pagedlab.parity import vllm_side
    from pagedlab.watch.hooks import Hooks

    knobs = {"max_model_len": 128, "max_num_seqs": 4, "max_num_batched_tokens": 64, "enable_caching": True}
    scheduler = vllm_side.make_scheduler(knobs | {"num_blocks": 40, "block_size": 4})
    envs.disable_envs_cache()  # which an engine that runs has made
    monkeypatch.setenv("VLLM_USE_V2_MODEL_RUNNER", number)  # only now: no engine can be made with it without Triton
    hooks = Hooks(scheduler, list)
    hooks.close()
    assert hooks.sources["execute_model"] == f"vllm.v1.worker.{module}:GPUModelRunner.execute_model"
    home = Path(importlib.util.find_spec("vllm").origin).parent / "v1" / "worker" / f"{module.replace('.', '/')}.py"
    text = home.read_text()
    assert all(part in text for part in ("class GPUModelRunner(", "def execute_model(", "def sample_tokens("))


def test_a_scheduler_is_watched_once_however_often_the_plugin_is_loaded(monkeypatch):
    from vllm.config import SchedulerConfig

    from pagedlab.watch.plugin import register
    from pagedlab.watch.scheduler import watched

    monkeypatch.setattr(SchedulerConfig, "get_scheduler_cls", SchedulerConfig.get_scheduler_cls)  # put back afterwards
    monkeypatch.setenv("PAGEDLAB_EVENTS", "tcp://127.0.0.1:*")
    plain = SchedulerConfig.get_scheduler_cls
    register(), register()
    config = SchedulerConfig(max_model_len=128, is_encoder_decoder=False, async_scheduling=False)
    assert config.get_scheduler_cls() is watched(plain(config))


@pytest.mark.parametrize("what", ["text", 3, object()])
def test_other_things_cannot_be_watched(what):
    with pytest.raises(PagedlabError, match="takes a vllm.LLM in this process, not a"):
        watch.of(what)
