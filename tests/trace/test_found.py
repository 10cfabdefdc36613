"""A watch that begins in mid-run says how everything stands: what is found must fit the pool, and itself."""

import dataclasses
import random

import pytest

from pagedlab.errors import PagedlabError
from pagedlab.trace import Trace, replay
from pagedlab.trace import events as ev
from pagedlab.trace.invariants import broken, first_broken
from pagedlab.viz import memory_map, prefix_hits

HEADER = {"schema": ev.SCHEMA_VERSION, "device": "CPU", "config": {"num_blocks": 6, "block_size": 2}}
POOL = ev.PoolFound(step=3, free=(4, 5), ref_cnt=(0, 1, 1, 1, 0, 0))
RUNNING = ev.RequestFound(
    request_id="A", token_ids=(1, 2, 3, 4), texts=tuple("abcd"), num_prompt_tokens=3, max_tokens=5, status="running",
    num_computed_tokens=3, block_ids=(1, 2),
)  # fmt: skip
OTHER = dataclasses.replace(RUNNING, request_id="B", token_ids=(7, 8), texts=("x", "y"), num_prompt_tokens=2,
                            num_computed_tokens=2, block_ids=(3,))  # fmt: skip
WAITING = dataclasses.replace(OTHER, request_id="C", status="preempted", num_computed_tokens=0, block_ids=())
NAMED = ev.BlockFound(block_id=1, block_hash="aa", parent_hash=None, position=0, token_ids=(1, 2), texts=("a", "b"))
LEFT = ev.BlockFound(block_id=4, block_hash="bb", parent_hash="aa", position=2, token_ids=(5, 6), texts=("e", "f"))
STEP = (ev.StepStarted(step=4), ev.StepEnded(step=4, num_tokens=0, seconds=0.0, device="CPU"))
FOUND = (POOL, RUNNING, OTHER, WAITING, NAMED, LEFT)


def trace(*events):
    return Trace(dict(HEADER), list(events))


def test_what_is_found_is_the_state():
    before = ev.RequestArrived(request_id="A", token_ids=(9,), texts=("z",), max_tokens=1)  # void from then on
    run = trace(before, *FOUND, *STEP)
    state = replay(run)
    assert broken(state) == [] and first_broken(run) is None
    assert (state.running, state.waiting, state.free) == (["A", "B"], ["C"], [4, 5])
    assert state.tables == {"A": [1, 2], "B": [3]} and state.cached == {1: "aa", 4: "bb"}
    assert state.requests["A"].pending == [(3, "d")] and state.requests["C"].status == "preempted"
    assert [slot and (slot.request_id, slot.position, slot.token_id) for slot in state.slots[2]] == [("A", 2, 3), None]
    assert [(slot.request_id, slot.position) for slot in state.slots[4]] == [("", 2), ("", 3)]


@pytest.mark.parametrize("event, change", [
    (POOL, {"ref_cnt": (0, 1, 1)}),
    (POOL, {"free": (4, 4)}),
    (POOL, {"free": (0, 4)}),
    (POOL, {"free": (4, 6)}),
    (POOL, {"free": (-1,)}),
    (OTHER, {"request_id": "A"}),
    (OTHER, {"status": "finished"}),
    (OTHER, {"status": "swapped"}),
    (OTHER, {"texts": ("x",)}),
    (OTHER, {"num_prompt_tokens": 3}),
    (OTHER, {"num_computed_tokens": 3}),
    (OTHER, {"num_computed_tokens": -1}),
    (OTHER, {"block_ids": ()}),
    (OTHER, {"block_ids": (6,)}),
    (OTHER, {"block_ids": (3, -1)}),
    (WAITING, {"block_ids": (77,)}),
    (LEFT, {"block_id": 6}),
    (LEFT, {"block_id": -1}),
    (LEFT, {"block_id": 0}),
    (LEFT, {"block_id": 1}),
    (LEFT, {"texts": ()}),
    (LEFT, {"token_ids": (5, 6, 7), "texts": tuple("efg")}),
])  # fmt: skip
def test_what_does_not_fit_contradicts_the_trace(event, change):
    events = [dataclasses.replace(e, **change) if e is event else e for e in FOUND]
    with pytest.raises(PagedlabError, match="contradicts itself"):
        replay(trace(*events))
    assert first_broken(trace(*events)).rule == "history"
    with pytest.raises(PagedlabError, match="contradicts itself"):
        memory_map(trace(*events, *STEP))


@pytest.mark.parametrize("block_id, offset", [(6, 0), (-1, 0), (2, 2)])
def test_a_write_to_a_slot_that_there_is_not_is_in_the_wrong_place(block_id, offset):
    write = ev.SlotWritten(request_id="A", token_id=4, text="d", position=3, block_id=block_id, offset=offset)
    assert first_broken(trace(*FOUND, write)).rule == "place"


def test_the_sentence_about_a_large_pool_is_short():
    wrong = dataclasses.replace(POOL, ref_cnt=(0,) * 60_000)
    with pytest.raises(PagedlabError, match="a pool of 60000 blocks, where the header says 6") as caught:
        replay(trace(wrong))
    assert len(str(caught.value)) < 700


def test_a_faulty_engine_is_shown_as_it_was_found():
    """What breaks a rule of memory is no contradiction of the trace: a lab is there to show it."""
    faulty = dataclasses.replace(POOL, free=(3, 4, 5), ref_cnt=(0, 1, -1, 1, 0, 0))
    state = replay(trace(faulty, *FOUND[1:]))
    assert "#3 is free, and B still reads it: it will be handed out again." in broken(state)
    assert "#2 has ref_cnt -1, but 1 table entries point at it." in broken(state)


@pytest.mark.parametrize("seed", range(80))
def test_what_was_damaged_is_refused_or_shown_and_never_breaks_a_picture(seed):
    rng, events = random.Random(seed), [*FOUND, *STEP]
    for _ in range(rng.choice([1, 1, 2])):
        at = rng.randrange(len(events))
        names = [f.name for f in dataclasses.fields(events[at]) if f.name not in ("source", "device", "seconds")]
        what = rng.choice(["drop", "double", "swap", "change", "change", "change"])
        if what == "drop":
            del events[at]
        elif what == "double":
            events.insert(at, events[at])
        elif what == "swap":
            other = rng.randrange(len(events))
            events[at], events[other] = events[other], events[at]
        else:
            name = rng.choice(names)
            others = {str: ["A", "aa", "bb", "waiting"], int: [0, 1, 5, 500], tuple: [(), (1, 2), (3,), (5, 4, 3)]}
            value = rng.choice(others.get(type(getattr(events[at], name)), [None]))
            if name == "texts":
                value = tuple(map(str, value))
            events[at] = dataclasses.replace(events[at], **{name: value})
    for lab_of in (memory_map, lambda run: prefix_hits(run, [1, 2, 5, 6])):
        try:
            lab = lab_of(trace(*events))
        except PagedlabError:
            continue
        for position in range(lab.num_steps + 1):
            lab.seek(position)
            lab.view()
    first_broken(trace(*events))


def test_who_is_not_found_again_is_over_and_the_labs_go_on():
    """A reader that lost messages may never hear what became of a request whose arrival it has seen."""
    arrived = (ev.RequestArrived(request_id="D", token_ids=(1,), texts=("q",), max_tokens=1),
               ev.RequestQueued(request_id="D"))  # fmt: skip
    again = dataclasses.replace(POOL, step=9, free=(3, 4, 5), ref_cnt=(0, 1, 1, 0, 0, 0), num_missed=3)
    later = (ev.StepStarted(step=10), ev.StepEnded(step=10, num_tokens=0, seconds=0.0, device="CPU"))
    run = trace(*FOUND, *STEP, *arrived, again, RUNNING, NAMED, *later)
    state = replay(run)
    assert {name: request.status for name, request in state.requests.items()} == {
        "A": "running", "B": "finished", "C": "finished", "D": "finished",
    }  # fmt: skip
    assert (state.running, state.waiting, state.tables) == (["A"], [], {"A": [1, 2]})
    for name in "ABCD":
        lab = memory_map(run, select=name)
        lab.seek(2)
        assert "3 messages never came; memory was found like this, in mid-run." in lab.view().words["say"]
    lab = prefix_hits(run, [1, 2, 5, 6])
    lab.seek(2)
    assert "memory was found like this" in lab.view().words["say"] and ".." not in lab.view().words["say"]
