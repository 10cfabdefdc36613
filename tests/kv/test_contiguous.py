"""Memory in one piece: what fits where, and what becomes of every slot."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pagedlab.kv.contiguous import RESERVATIONS, ContiguousAllocator, ContiguousMemory, Hole, next_power_of_two
from pagedlab.kv.serving import PagedMemory, ServedRequest, Serving, served_header, summary
from pagedlab.trace import MemoryState, Recorder, replay

MEMORIES = {
    "max": lambda: ContiguousMemory(64, 24, "max"),
    "power_of_two": lambda: ContiguousMemory(64, 24, "power_of_two"),
    "oracle": lambda: ContiguousMemory(64, 24, "oracle"),
    "best": lambda: ContiguousMemory(64, 24, "oracle", "best"),
    "paged": lambda: PagedMemory(17, 4, 24),
}
LENGTHS = st.lists(st.tuples(st.integers(1, 12), st.integers(1, 12)), min_size=1, max_size=12)


def requests(lengths) -> list[ServedRequest]:
    return [ServedRequest(f"r{i}", prompt, output) for i, (prompt, output) in enumerate(lengths)]


# ---------------------------------------------------------------------------------------------------- the strip


@given(st.data(), st.sampled_from(["first", "best"]))
@settings(max_examples=100, deadline=None)
def test_the_strip_does_what_a_row_of_booleans_does(data, fit):
    strip, row, held = ContiguousAllocator(32, fit), [False] * 32, []
    for _ in range(data.draw(st.integers(1, 25))):
        if held and data.draw(st.booleans()):
            start, length = held.pop(data.draw(st.integers(0, len(held) - 1)))
            strip.release(start, length)
            row[start : start + length] = [False] * length
        else:
            length = data.draw(st.integers(1, 12))
            holes = holes_of(row)
            fitting = [hole for hole in holes if hole.length >= length]
            expected = None
            if fitting:
                expected = (fitting[0] if fit == "first" else min(fitting, key=lambda hole: hole.length)).start
            assert strip.reserve(length) == expected
            if expected is not None:
                held.append((expected, length))
                row[expected : expected + length] = [True] * length
        assert strip.holes == holes_of(row)
        assert strip.num_free == row.count(False)


def holes_of(row: list[bool]) -> list[Hole]:
    holes, start = [], None
    for i, used in enumerate([*row, True]):
        if not used and start is None:
            start = i
        elif used and start is not None:
            holes.append(Hole(start, i - start))
            start = None
    return holes


def test_first_fit_takes_the_first_hole_and_best_fit_the_tightest():
    for fit, expected in (("first", 0), ("best", 12)):
        strip = ContiguousAllocator(20, fit)
        for length in (8, 4, 4, 4):
            strip.reserve(length)
        strip.release(0, 8)
        strip.release(12, 4)
        assert strip.reserve(3) == expected


def test_releasing_what_is_free_is_refused_and_changes_nothing():
    strip = ContiguousAllocator(10)
    strip.reserve(4)
    for start, length in ((0, 5), (4, 1), (0, 0), (-1, 2), (9, 3)):
        with pytest.raises(ValueError, match="not all of them are in use"):
            strip.release(start, length)
    assert strip.holes == [Hole(4, 6)]


def test_enough_in_sum_and_no_hole_long_enough_is_external_fragmentation():
    memory = ContiguousMemory(12, 12, "oracle")
    three = [ServedRequest(name, 4, 1) for name in "ABC"]
    assert all(memory.admit(request) for request in three)
    memory.finish(three[0])
    memory.finish(three[2])
    big = ServedRequest("D", 8, 1)
    assert not memory.admit(big)
    account = memory.account(big)
    assert (account.token, account.external, account.free) == (4, 8, 0)
    assert memory.why_waits(big) == "no hole long enough"
    assert memory.account(None).free == 8


# ------------------------------------------------------------------------------------------------ reservations


def test_2048_reserved_100_used_1948_locked():
    memory = ContiguousMemory(4096, 2048, "max")
    request = ServedRequest("A", 100, 1)
    memory.admit(request)
    account = memory.account(None)
    assert (account.token, account.reserved, account.internal, account.free) == (100, 0, 1948, 2048)


@pytest.mark.parametrize("reservation, length", [("max", 2048), ("power_of_two", 128), ("oracle", 100)])
def test_each_policy_reserves_what_its_name_says(reservation, length):
    assert ContiguousMemory(4096, 2048, reservation).length_of(ServedRequest("A", 60, 41)) == length


def test_next_power_of_two():
    assert [next_power_of_two(n) for n in (1, 2, 3, 4, 5, 64, 65)] == [1, 2, 4, 4, 8, 64, 128]


# ---------------------------------------------------------------------------------------- the same workload for all


@pytest.mark.parametrize("name", MEMORIES)
@given(LENGTHS)
@settings(max_examples=25, deadline=None)
def test_every_slot_is_accounted_for_at_every_step_and_everybody_is_served(name, lengths):
    serving = Serving(MEMORIES[name](), requests(lengths))
    serving.run()
    for step in serving.steps:
        assert step.account.total == 64
        assert min(vars(step.account).values()) >= 0
        if name in ("oracle", "best"):
            assert step.account.internal == 0
        if name == "paged":
            assert step.account.external == 0
            assert step.account.reserved + step.account.internal <= 3 * step.num_running  # less than a block each
    last = serving.memory.account(None)
    assert last.free == 64
    # Each request is in as many steps as it samples tokens, preempted or not.
    assert sum(step.num_running for step in serving.steps) == sum(output for _, output in lengths)


@pytest.mark.parametrize("name", MEMORIES)
@given(LENGTHS)
@settings(max_examples=8, deadline=None)
def test_replaying_the_trace_gives_the_live_state_after_every_step(name, lengths):
    memory = MEMORIES[name]()
    recorder = Recorder(served_header(memory))
    serving = Serving(memory, requests(lengths), recorder)
    state, done = MemoryState.of(recorder.trace.header["config"]), 0
    while not serving.done:
        serving.step()
        for event in recorder.trace.events[done:]:
            state.apply(event)
        done = len(recorder.trace.events)
        assert state.running == [r.request_id for r in serving.running]
        assert state.waiting == [r.request_id for r in serving.waiting]
        assert {r: state.requests[r].num_tokens for r in state.running} == {
            r.request_id: r.num_tokens for r in serving.running
        }
        if name == "paged":
            assert state.tables == {r: memory.manager.get_block_ids(r) for r in state.running}
        else:
            assert {r: (region.start, region.length) for r, region in state.regions.items()} == memory.regions
            assert len(state.free) == memory.allocator.num_free
            for request_id in state.running:
                start, written = memory.regions[request_id][0], state.requests[request_id].num_computed_tokens
                slots = [slots[0] for slots in state.slots[start : start + written]]
                assert [(s.request_id, s.position) for s in slots] == [(request_id, i) for i in range(written)]
    assert replay(recorder.trace) == state


def test_paging_holds_more_tokens_and_more_requests_than_any_reservation():
    lengths = [(1 + 7 * i % 11, 1 + 5 * i % 13) for i in range(60)]
    results = {}
    for name, make in MEMORIES.items():
        serving = Serving(make(), requests(lengths))
        serving.run()
        results[name] = summary(serving)
    assert max(results, key=lambda name: results[name].token) == "paged"
    assert max(results, key=lambda name: results[name].num_running) == "paged"
    assert results["max"].token < results["oracle"].token
    assert results["max"].waits == {"not enough free slots": results["max"].num_loaded_steps}


def test_a_request_that_can_never_be_served_is_refused_before_anything_runs():
    for name, make in MEMORIES.items():
        with pytest.raises(ValueError, match="can never be served here: it needs 33 slots, and max_model_len is 24"):
            Serving(make(), [ServedRequest("A", 3, 3), ServedRequest("B", 30, 4)])
        assert name in MEMORIES
    with pytest.raises(ValueError, match="24 slots would be reserved for it, and the strip has 20"):
        Serving(ContiguousMemory(20, 24), [ServedRequest("A", 3, 3)])
    with pytest.raises(ValueError, match="at least 1 each"):
        ServedRequest("A", 0, 3)
    with pytest.raises(ValueError, match=f"allowed are {', '.join(RESERVATIONS)}"):
        ContiguousMemory(20, 24, "some")
    with pytest.raises(ValueError, match="nobody ever waited"):
        summary(Serving(ContiguousMemory(20, 10), []))


@pytest.mark.parametrize("name", MEMORIES)
def test_who_arrives_later_waits_for_nobody_who_comes_after(name):
    late = [ServedRequest("A", 4, 6), ServedRequest("B", 3, 2, arrives=3), ServedRequest("C", 5, 4, arrives=2)]
    memory = MEMORIES[name]()
    recorder = Recorder(served_header(memory))
    serving = Serving(memory, late, recorder)
    arrived = []
    while not serving.done:
        serving.step()
        state = replay(recorder.trace)
        arrived.append(list(state.requests))
    assert arrived[:4] == [["A"], ["A"], ["A", "C"], ["A", "C", "B"]]
    assert sum(step.num_running for step in serving.steps) == 12


def test_an_idle_memory_waits_for_who_is_still_to_come():
    serving = Serving(MEMORIES["max"](), [ServedRequest("A", 2, 1), ServedRequest("B", 2, 2, arrives=4)])
    serving.run()
    assert [step.num_running for step in serving.steps] == [1, 0, 0, 0, 1, 1]
    with pytest.raises(ValueError, match="arrives after -1 steps"):
        ServedRequest("A", 1, 1, arrives=-1)
