"""The memory map of the paper's era (forks, copies, swaps) and of contiguous memory, against the state it shows."""

import re

import pytest
from runs import scenes

from pagedlab.engine import LLM, BeamSearchParams, SamplingParams
from pagedlab.trace import TraceDriver, replay
from pagedlab.viz.kit import labels
from pagedlab.viz.kit.history import History
from pagedlab.viz.kit.marks import picture
from pagedlab.viz.kit.narrator import narrate
from pagedlab.viz.memory import layout as memory_layout
from pagedlab.viz.memory import strip
from pagedlab.viz.memory.lab import memory_map
from pagedlab.viz.memory.words import story


def paper(**knobs):
    return LLM("tiny-random", record=True, era="paper", **{"block_size": 4, "num_gpu_blocks_override": 16} | knobs)


@pytest.fixture(scope="module")
def forked():
    """Two answers to one prompt, and a beam search: forks, copies, dropped beams."""
    llm = paper()
    llm.add_request("Hi there you", SamplingParams(max_tokens=6, n=2, temperature=1.0, ignore_eos=True))
    while llm.has_unfinished_requests():
        llm.step()
    llm.beam_search("Hello", BeamSearchParams(beam_width=2, max_tokens=5))
    return llm.trace


@pytest.fixture(scope="module")
def swapped():
    """Two prompts that do not fit together once they have grown: one is swapped out, and comes back."""
    llm = paper(num_gpu_blocks_override=14, preemption="swap")
    for prompt in ("Hi there you all", "Hello to you two"):
        llm.add_request(prompt, SamplingParams(max_tokens=16, n=2, temperature=1.0, ignore_eos=True))
    while llm.has_unfinished_requests():
        llm.step()
    return llm.trace


def narration(trace, selected):
    driver = TraceDriver(trace)
    out = []
    for k in range(1, driver.num_steps + 1):
        first, last = driver.num_events(k - 1), driver.num_events(k)
        out += narrate(trace.events[first:last], replay(trace, last), selected).values()
    return " ".join(out)


@pytest.mark.parametrize("name", ["forked", "swapped"])
def test_every_block_shows_its_owners_and_no_block_is_the_null_block(name, request):
    for scene in scenes(request.getfixturevalue(name)):
        state, marks = scene.state, picture(memory_layout.marks(scene))
        assert "null" not in marks["block.0"].cls
        for block in range(state.num_blocks):
            owners = {id.split(".", 3)[3] for id in marks if id.startswith(f"block.{block}.owner.")}
            label = next((m.text for id, m in marks.items() if id.startswith(f"block.{block}.owner.")), "")
            if f"block.{block}.more" not in marks and not re.search(r"[–+× ]", label):
                assert owners == set(state.owners(block)), block
        cpu = {int(id.split(".")[1]) for id in marks if re.fullmatch(r"cpu\.\d+", id)}
        assert cpu == {b for table in state.cpu.tables.values() for b in table}
        shown = {int(id.split(".")[1]): m.text for id, m in marks.items() if re.fullmatch(r"table\.\d+\.p", id)}
        assert shown == {i: f"#{b}" for i, b in enumerate(scene.table) if i in shown}
        assert f"of {state.num_blocks} free" in marks["free"].text or "No block" in marks["free"].text


def test_a_family_has_one_hue_and_a_name_each(forked):
    scene = list(scenes(forked))[-1]
    requests = scene.state.requests
    assert any(r.parent for r in requests.values())
    assert all(scene.hues[r] == scene.hues[requests[r].root] for r in requests)
    assert len(set(scene.names.values())) == len(requests)


def test_a_copy_is_drawn_as_it_happens_and_told(forked):
    kinds = {e.kind for e in forked.events}
    assert {"request_forked", "block_copied"} <= kinds
    drawn = [picture(memory_layout.marks(scene)) for scene in scenes(forked)]
    rings = 0
    for scene, marks in zip(scenes(forked), drawn, strict=True):
        made = {e.to_block_id: e.from_block_id for e in scene.events if e.kind == "block_copied"}
        made = {copy: source for copy, source in made.items() if scene.state.owners(copy)}
        assert {int(id.split(".")[1]) for id in marks if id.endswith(".copy")} == set(made)  # every one of this step
        assert ("key.copied" in marks) == bool(made)
        if len(set(made.values())) == 1:
            assert f"copy of #{next(iter(made.values()))}" in marks["key.copied"].text
        rings += len(made)
    assert rings
    words = narration(forked, None)
    assert "a copy of #" in words and "forked from" in words and "still hold" in words
    first = next(e.request_id for e in forked.events if e.kind == "block_copied")
    assert "was shared by two, so before it wrote" in narration(forked, first)


def test_who_kept_a_block_that_the_others_copied_is_told():
    llm = paper(num_gpu_blocks_override=24)
    llm.add_request("Hi there yo", SamplingParams(max_tokens=3, n=4, temperature=1.0, ignore_eos=True))
    while llm.has_unfinished_requests():
        llm.step()
    sentences = []
    for scene in scenes(llm.trace):
        copies = [e for e in scene.events if e.kind == "block_copied"]
        if not copies or scene.selected != copies[0].request_id:
            continue
        (kept,) = scene.state.owners(copies[0].from_block_id)
        mine, others = story(scene)
        assert f"#{copies[0].from_block_id} was shared by four, so before it wrote {scene.selected} got a copy" in mine
        assert f"; {kept} kept it." in others
        sentences.append(others)
    assert sentences


def test_the_answers_to_one_prompt_are_called_so(forked):
    for scene in scenes(forked):
        marks = picture(memory_layout.marks(scene))
        alive = [*scene.state.running, *scene.state.waiting]
        if "chips.family" in marks:
            assert marks["chips.family"].text == f"{labels.number(len(alive))} answers to one prompt"
    assert any("chips.family" in picture(memory_layout.marks(scene)) for scene in scenes(forked))


def test_a_swap_is_shown_and_is_not_called_giving_back(swapped):
    assert {"blocks_swapped_out", "blocks_swapped_in"} <= {e.kind for e in swapped.events}
    out = [scene for scene in scenes(swapped) if scene.swapped]
    assert out
    for scene in out:
        marks = picture(memory_layout.marks(scene))
        assert "swapped out" in marks["head.line"].text and "arrow" not in marks
        assert any("mine" in m.cls for id, m in marks.items() if re.fullmatch(r"cpu\.\d+", id))
    words = narration(swapped, None)
    assert (
        "moved to the CPU's memory" in words + narration(swapped, "B/0")
        and "was swapped out" in words
        and "came back" in words
        and "gave back" not in words
    )


@pytest.mark.parametrize("name", ["forked", "swapped"])
def test_the_strip_tells_who_held_which_block(name, request):
    trace = request.getfixturevalue(name)
    history = History(trace)
    history.update()
    driver = TraceDriver(trace)
    for step in range(1, driver.num_steps + 1):
        state = replay(trace, driver.num_events(step) if step < driver.num_steps else trace.step_ends()[-1])
        for block in range(state.num_blocks):
            held = [
                r.owner for r in history.runs.get(block, []) if r.first <= step and (r.last is None or step <= r.last)
            ]
            assert held == state.owners(block)[:1], (step, block)
    assert picture(strip.drawn(history, 64).marks)


def test_nothing_leaves_the_frame_and_the_lab_opens_everywhere(forked, swapped):
    for trace in (forked, swapped):
        lab = memory_map(trace)
        for position in range(lab.num_steps + 1):
            lab.seek(position)
            for mark in lab.static_marks():
                if len(mark.place) == 4:
                    x, y, w, h = mark.place
                    assert x >= 0 and y >= 0 and x + w <= 960 and y + h <= 510, mark
            assert lab.text()


def test_contiguous_memory_is_shown_as_slots_in_one_piece():
    from pagedlab.trace import Recorder
    from pagedlab.trace import events as ev

    header = {"schema": 1, "device": "CPU", "dtype": "float32", "date": "2026-07-01", "live": False,
              "config": {"num_blocks": 64, "block_size": 1, "era": "contiguous"}}  # fmt: skip
    recorder = Recorder(header)
    for e in (
        ev.StepStarted(step=1),
        ev.RequestArrived(request_id="A", token_ids=(1, 2), texts=("a", "b"), max_tokens=4),
        ev.RequestQueued(request_id="A"),
        ev.RegionReserved(request_id="A", start=0, length=16, num_needed=6),
        ev.RequestAdmitted(request_id="A", num_computed_tokens=0),
        ev.SlotWritten(request_id="A", token_id=1, text="a", position=0, block_id=0, offset=0),
        ev.SlotWritten(request_id="A", token_id=2, text="b", position=1, block_id=1, offset=0),
        ev.StepEnded(step=1, num_tokens=2, seconds=0.0, device="CPU"),
        ev.StepStarted(step=2),
        ev.RequestFinished(request_id="A", reason="length"),
        ev.RegionReleased(request_id="A", start=0, length=16),
        ev.StepEnded(step=2, num_tokens=0, seconds=0.0, device="CPU"),
    ):
        recorder.emit(e)
    lab = memory_map(recorder.trace)
    marks = picture(lab.marks())
    assert marks["head.line"].text == "2 tokens in 16 slots in one piece, 14 left"
    assert sum(id.endswith(".owner.A") and id.startswith("block.") for id in marks) == 16
    assert "slots 0 to 15 in one piece; it will need 6" in marks["story"].text
    lab.forward()
    assert "are a hole again" in picture(lab.marks())["story"].text
