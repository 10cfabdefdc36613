"""The recordings of vLLM that come with the package: whole, honest, and chapter 15 is right about them."""

import pytest

from pagedlab.errors import PagedlabError
from pagedlab.trace import MemoryState, TraceDriver, load, recorded, replay
from pagedlab.trace import events as ev
from pagedlab.trace.invariants import first_broken
from pagedlab.viz import memory_map, prefix_hits

BOTH = ("vllm-sync", "vllm-async")
USABLE = 13  # 14 blocks, one of them the null block


@pytest.fixture(params=BOTH)
def trace(request):
    return load(recorded(request.param))


def moments(trace):
    """The state after each step, in one pass: (usage in blocks, cached blocks, running)."""
    state = MemoryState.of(trace.header["config"])
    for event in trace.events:
        state.apply(event)
        if isinstance(event, ev.StepEnded):
            yield sum(count > 0 for count in state.ref_cnt[1:]), len(state.cached), list(state.running)


def admitted(trace):
    """Request -> the tokens that it found when it was first admitted."""
    found = {}
    for event in trace.events:
        if isinstance(event, ev.RequestAdmitted):
            found.setdefault(event.request_id, event.num_computed_tokens)
    return found


def test_a_recording_is_small_whole_and_breaks_no_rule(trace):
    assert first_broken(trace) is None
    end = replay(trace)
    assert not end.tables and {r.finish_reason for r in end.requests.values()} == {"length"}
    assert all(recorded(name).stat().st_size < 60_000 for name in BOTH)


def test_the_header_says_which_vllm_it_was_and_what_was_stood_in_for(trace):
    h = trace.header
    assert (h["engine"], h["device"], h["dtype"], h["live"]) == ("vLLM 0.32.0", "CPU", "float32", False)
    assert h["async_scheduling"] == ("stood_in" in h)


@pytest.mark.parametrize("name, ahead", [("vllm-sync", False), ("vllm-async", True)])
def test_each_recording_is_of_the_mode_that_its_name_says(name, ahead):
    assert load(recorded(name)).header["async_scheduling"] is ahead


@pytest.mark.parametrize("lab", [memory_map, prefix_hits])
def test_the_labs_open_them_and_their_badge_says_recorded(lab, trace):
    for name in BOTH:
        text = lab(recorded(name)).svg()
        assert f"recorded · vLLM 0.32.0 · CPU · fp32 · {trace.header['date'][:10]}" in text


def test_usage_falls_to_zero_while_the_prefixes_stay_and_are_found_again(trace):
    usage = list(moments(trace))
    idle = [i for i, (used, _, running) in enumerate(usage[:-20]) if i > 10 and not running]
    assert len(idle) >= 2 and all(usage[i][:2] == (0, 11) for i in idle)
    assert admitted(trace)["E2"] == 128


def test_somebody_is_preempted_and_comes_back(trace):
    out = [event.request_id for event in trace.events if isinstance(event, ev.RequestPreempted)]
    assert set(out) == {"D", "E"}
    back = [event.request_id for event in trace.events if isinstance(event, ev.RequestAdmitted)]
    assert all(back.count(name) == 1 + out.count(name) for name in set(back))


def test_of_three_second_turns_one_finds_all_and_two_do_not_for_their_own_reasons(trace):
    """64 tokens of system prompt are everybody's. The three had 4, 4 and 5 full blocks when they were done."""
    assert {name: n for name, n in admitted(trace).items() if name.endswith("2")} == {
        "A2": 64, "E2": 128, "D2": 96,
    }  # fmt: skip
    state, held, cached_at, tokens = MemoryState.of(trace.header["config"]), {}, {}, {}
    for event in trace.events:
        if isinstance(event, ev.BlocksFreed):
            held[event.request_id] = [(b, state.cached.get(b)) for b in event.block_ids]
            tokens[event.request_id] = list(state.requests[event.request_id].token_ids)
        if isinstance(event, ev.RequestArrived):
            cached_at[event.request_id] = set(state.cached.items())
            tokens.setdefault(event.request_id, list(event.token_ids))
        state.apply(event)
    same = {who: _same(tokens[who], tokens[f"{who}2"]) for who in ("A", "E", "D")}
    assert same["A"] >= 128 and same["E"] >= 128, "they sent what was there"
    assert 96 <= same["D"] < 128, "she did not: her answer's beginning is missing"
    left = {who: sum(block in cached_at[f"{who}2"] for block in held[who]) for who in same}
    assert left == {"A": 2, "E": 4, "D": 4}, "A's own were handed out; D's fourth was there, and not found"


def _same(one, two):
    return next((i for i, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), min(len(one), len(two)))


@pytest.mark.parametrize("name", ["vllm", "", "../golden/kv-01", None])
def test_a_recording_that_is_not_there_is_refused_with_those_that_are(name):
    with pytest.raises(PagedlabError, match="vllm-async, vllm-sync"):
        recorded(name)


def test_the_prefix_lab_finds_by_tokens_what_vllm_found_by_its_own_hashes(trace):
    for event in trace.events:
        if isinstance(event, ev.RequestArrived) and event.request_id.endswith("2"):
            driver = TraceDriver(trace)
            driver.seek(max(i for i, end in enumerate([0, *trace.step_ends()]) if end <= trace.events.index(event)))
            lab = prefix_hits(driver, event.token_ids).lab
            assert sum(look.outcome == "hit" for look in lab.lookups) * 32 == admitted(trace)[event.request_id]
