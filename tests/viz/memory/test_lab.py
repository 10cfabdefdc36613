"""The lab without a browser: what it sends, what it does when told, and that it needs no front end."""

import dataclasses
import random

import nbformat
import pytest
from front_end import FrontEnd, params, tiny
from runs import crowded, recorded_run

from pagedlab.engine import LLM, EngineDriver
from pagedlab.errors import PagedlabError
from pagedlab.trace import Trace, TraceDriver, replay, save
from pagedlab.trace import events as ev
from pagedlab.viz.kit.marks import picture
from pagedlab.viz.kit.widget import NOT_UNDERSTOOD
from pagedlab.viz.memory import layout as memory_layout
from pagedlab.viz.memory.lab import memory_map
from pagedlab.viz.stored import without_live_views


def test_what_is_sent_adds_up_to_the_picture_at_every_step_and_selection():
    lab = memory_map(crowded())
    end = FrontEnd(lab)
    for position in [*range(1, lab.num_steps + 1), *range(lab.num_steps, -1, -3), 5, 2, 9]:
        for selected in ("A", "B", "C"):
            if selected in lab.driver.state().requests or selected in lab._history.state.requests:
                end.show(position, selected)
                end.check()
    assert not end.errors


def test_a_live_lab_runs_the_engine_one_step_at_a_time():
    llm = tiny()
    llm.add_request("hello you", params(6))
    lab = memory_map(llm)
    assert (lab.position, lab.num_steps, lab.live) == (1, 1, True)
    end = FrontEnd(lab)
    for k in range(2, 9):
        end.show(k)
        end.check()
    assert lab.num_steps == 6 and end.message["run"]["over"] == "All requests are done"
    end.show(3)
    assert lab.num_steps == 6 and lab.position == 3
    assert "the past" not in lab.trace.header


def test_a_prompt_added_in_another_cell_appears_and_the_step_after_it_takes_its_place():
    llm = tiny()
    llm.add_request("hello you", params(6))
    lab = memory_map(llm)
    end = FrontEnd(lab)
    llm.add_request("abc", params(2))
    lab._keep_up()
    end.check()
    assert any(id.startswith("chip.B") for id in end.pictures[end.at])
    end.show(2)
    end.check()
    assert (1, "A") not in end.pictures  # what it showed was after the step, not its end


def test_an_engine_that_was_set_back_leaves_no_stale_picture():
    llm = tiny()
    llm.add_request("hello you", params(8))
    lab = memory_map(llm)
    end = FrontEnd(lab)
    before = llm.snapshot()
    end.show(2)
    end.show(3)
    llm.restore(before)
    lab.driver.seek(1)
    end.show(1)
    assert set(end.pictures) == {(1, "A")}
    end.show(2)
    end.check()


def test_two_labs_of_one_run_both_see_it_grow():
    llm = tiny()
    llm.add_request("hello you", params(8))
    one, two = memory_map(llm), memory_map(llm)
    ends = FrontEnd(one), FrontEnd(two)
    ends[0].show(2)
    assert ends[1].message["run"]["steps"] == 2
    ends[1].check()
    ends[1].show(2)
    ends[1].check()


@pytest.mark.parametrize("kind", ["memory map", "prefix hits"])
def test_two_labs_of_one_driver_go_through_the_run_together(kind):
    from pagedlab.viz.prefix.lab import PrefixLab

    llm = tiny()
    llm.add_request("hello you", params(8))
    driver = EngineDriver(llm)
    one = memory_map(driver)
    two = memory_map(driver) if kind == "memory map" else PrefixLab(driver, [1, 2, 3], None)
    end, places = FrontEnd(one), []
    two.send = lambda message, buffers=None: places.append((message["position"], message["run"]["steps"]))
    end.show(2)
    end.show(3)
    assert places == [(2, 2), (3, 3)]
    one._receive(None, {"do": "at", "position": 1, "selected": "A", "n": 5}, [])  # a step that was seen: no answer
    assert places[2:] == [(1, 3)] and two.position == 1
    two._receive(None, {"do": "show", "position": 4, "selected": None, "have": None}, [])
    assert end.at[0] == 4 and llm.step_count == 4
    end.check()
    driver.seek(2)  # a cell moves it; labs look after each cell
    one._keep_up()
    assert end.at[0] == 2
    before = len(places)
    two._keep_up(), two._keep_up()
    assert len(places) == before + 1


def test_every_message_says_what_was_the_last_one_heard():
    lab = memory_map(crowded())
    assert lab.get_state("picture")["picture"]["heard"] is None
    sent = []
    lab.send = lambda message, buffers=None: sent.append(message["heard"])
    lab._receive(None, {"do": "show", "position": 2, "selected": "A", "have": None, "n": 7}, [])
    lab._receive(None, {"do": "pane", "id": "code", "n": 8}, [])
    lab._receive(None, {"do": "show", "position": 2, "selected": "Z", "have": None, "n": 9}, [])
    assert sent == [7, 8, 9]


def test_a_request_that_arrives_later_can_be_selected_and_the_lab_opens_where_it_does():
    for name in ("C", "D"):
        lab = memory_map(crowded(), select=name)
        lab.get_state("picture"), lab.text(), lab.svg(), [lab.pane(id) for id in lab.panes()]
        assert lab.selected == name and name in lab.state.requests
        lab.back()
        assert name not in lab.state.requests and f"WHAT {name} SEES" not in lab.svg()
    lab = memory_map(crowded(), select="D", step=1)
    assert lab.position == 1


@pytest.mark.parametrize("wrong", [1.5, "2", None], ids=repr)
def test_a_step_that_is_no_whole_number_is_refused(wrong):
    llm = tiny()
    llm.add_request("hello you", params(8))
    lab = memory_map(llm)
    lab.forward(2)
    calls = [lab.seek, lab.forward, lab.back, lab.driver.seek, lab.driver.branch, llm.rerun]
    for call in calls:
        with pytest.raises(PagedlabError, match="must be a whole number"):
            call(wrong)
    with pytest.raises(PagedlabError, match="from step 0 on"):
        llm.rerun(-3)
    assert lab.position == 3


def test_a_step_sends_under_20_kilobytes_with_256_blocks_of_16():
    llm = tiny(block_size=16, num_gpu_blocks_override=256)
    for i in range(12):
        llm.add_request("x" * (100 + 30 * i), params(8 + i))
    lab = memory_map(llm)
    end = FrontEnd(lab)
    end.sizes.clear()
    while lab.driver.can_step:
        end.show(lab.position + 1)
    assert max(end.sizes) < 20_000, end.sizes


def test_it_opens_from_a_path_a_trace_a_driver_or_an_engine(tmp_path):
    trace = crowded()
    path = save(trace, tmp_path / "run.jsonl.gz")
    for what in (path, str(path), trace, TraceDriver(trace)):
        lab = memory_map(what)
        assert lab.position == 1 and not lab.live
    assert memory_map(path, step=5, select="B").position == 5
    for bad in (3, None, object(), LLM):
        with pytest.raises(PagedlabError, match="A lab cannot show"):
            memory_map(bad)
    with pytest.raises(PagedlabError, match="no request 'Z'"):
        memory_map(trace, select="Z")
    with pytest.raises(PagedlabError, match="no step 999"):
        memory_map(trace, step=999)
    with pytest.raises(PagedlabError, match="no trace file"):
        memory_map(tmp_path / "nothing.jsonl")


def test_an_engine_without_prompts_opens_and_wakes_up():
    llm = tiny()
    lab = memory_map(llm)
    end = FrontEnd(lab)
    assert "No request yet" in lab.text()
    llm.add_request("hello you", params(3))
    lab._keep_up()
    end.show(1)
    end.check()
    assert end.at == (1, "A")


def test_predictions_are_scored_by_the_next_step():
    lab = memory_map(recorded_run([list(range(9))], max_tokens=8))
    lab.predict(3)
    lab.predict(4)  # thinks again
    lab.forward()
    lab.predict(3)
    lab.forward()
    assert lab.predictions == [
        {"step": 2, "request": "A", "predicted": 4, "actual": 3, "right": False},
        {"step": 3, "request": "A", "predicted": 3, "actual": 3, "right": True},
    ]
    assert lab.score == (1, 2)
    lab.back()
    with pytest.raises(PagedlabError, match="nothing to predict"):  # the answer was seen
        lab.predict(3)
    with pytest.raises(PagedlabError, match="no block #99"):
        lab.predict(99)


def test_a_step_that_fails_says_so_in_the_lab_and_the_lab_lives_on():
    llm = tiny()
    llm.add_request("hello you", params(8))
    lab = memory_map(llm)
    end = FrontEnd(lab)
    step, llm.step = llm.step, lambda: 1 / 0
    end.show(2)
    assert "ZeroDivisionError" in end.errors[0] and lab.position == 1
    llm.step = step
    end.show(2)
    end.check()


def test_the_past_of_a_live_run_says_so_and_a_recording_is_called_one():
    llm = tiny()
    llm.add_request("hello you", params(8))
    lab = memory_map(llm)
    lab.forward(4)
    lab.back(2)
    assert "step 3 of 5 · the past" in lab.svg() and "live · CPU · fp32" in lab.svg()
    recorded = memory_map(llm.trace)
    assert "the past" not in recorded.svg() and "recorded · CPU · fp32 · " in recorded.svg()


def test_a_notebook_keeps_the_picture_for_readers_without_a_kernel():
    lab = memory_map(crowded())
    data, _ = lab._repr_mimebundle_()
    assert set(data) == {"text/plain", "image/svg+xml", "application/vnd.jupyter.widget-view+json"}
    output = nbformat.v4.new_output("execute_result", data=data, execution_count=1)
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("lab", outputs=[output])])
    notebook.metadata["widgets"] = {}
    without_live_views(notebook)
    assert (
        set(notebook.cells[0].outputs[0].data) == {"text/plain", "image/svg+xml"} and "widgets" not in notebook.metadata
    )


@pytest.mark.parametrize("stored", [True, False])
def test_nbconvert_shows_the_picture(stored):
    from nbconvert import HTMLExporter

    data, _ = memory_map(crowded())._repr_mimebundle_()
    output = nbformat.v4.new_output("execute_result", data=data, execution_count=1)
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("lab", outputs=[output])])
    if stored:
        without_live_views(notebook)
    page, _ = HTMLExporter().from_notebook_node(notebook)
    assert "data:image/svg+xml;base64," in page and "widget-view+json" not in page


@pytest.mark.slow
def test_it_waits_for_nobody_where_a_notebook_runs_without_a_front_end():
    from nbclient import NotebookClient

    source = (
        "from pagedlab import LLM, SamplingParams\nfrom pagedlab.viz import memory_map\n"
        "llm = LLM('tiny-random', record=True, block_size=4, num_gpu_blocks_override=12)\n"
        "llm.add_request('hello you', SamplingParams(max_tokens=5, ignore_eos=True))\n"
        "lab = memory_map(llm); lab.predict(3); lab.forward(3); print(lab.score)\nlab"
    )
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
    NotebookClient(notebook, timeout=60, kernel_name="python3", store_widget_state=False).execute()
    outputs = notebook.cells[0].outputs
    assert "(1, 1)" in outputs[0].text
    assert "image/svg+xml" in outputs[-1].data
    assert "widgets" not in notebook.metadata


def test_nothing_grows_over_500_steps():
    llm = tiny(num_gpu_blocks_override=256)
    llm.add_request("hello", params(600))
    lab = memory_map(llm)
    lab.send = lambda message, buffers=None: None
    for k in range(2, 500):
        lab._receive(None, {"do": "show", "position": k, "selected": "A", "have": [k - 1, "A"]}, [])
    assert lab.position == 499 and len(lab._sent) <= 32
    assert picture(memory_layout.marks(lab._scene()))


def test_a_trace_without_a_header_is_refused_with_a_sentence():
    with pytest.raises(PagedlabError, match="broken header: config"):
        memory_map(Trace({}))
    with pytest.raises(PagedlabError, match="broken header: config"):
        memory_map(TraceDriver(Trace({})))


def test_a_trace_that_contradicts_itself_is_refused_with_a_sentence():
    trace = crowded()
    for wrong in (
        ev.BlocksAllocated(request_id="Z", block_ids=(replay(trace).free[0],)),
        ev.BlocksFreed(request_id="Z", block_ids=(), to_head=(), to_tail=()),
        ev.SlotWritten(request_id="A", token_id=1, text="x", position=500, block_id=1, offset=0),
        ev.RequestArrived(request_id="Y", token_ids=(1, 2), texts=("a",), max_tokens=3),
    ):
        with pytest.raises(PagedlabError, match="trace contradicts itself: "):
            memory_map(Trace(trace.header, [*trace.events, wrong]))


@pytest.mark.parametrize("seed", range(60))
def test_a_trace_that_was_damaged_is_refused_or_shown_and_never_breaks_a_picture(seed):
    rng, events = random.Random(seed), list(crowded().events)
    at = rng.randrange(len(events))
    names = [f.name for f in dataclasses.fields(events[at]) if f.name not in ("source", "reason", "device", "seconds")]
    what = rng.choice(["drop", "double", "swap", "change", "change"])
    if what == "drop":
        del events[at]
    elif what == "double":
        events.insert(at, events[at])
    elif what == "swap":
        other = rng.randrange(len(events))
        events[at], events[other] = events[other], events[at]
    elif names:
        name = rng.choice(names)
        value = getattr(events[at], name)
        other = {str: rng.choice("ABZ"), int: rng.choice([0, 1, 7, 500]), bool: True}.get(type(value), ())
        events[at] = dataclasses.replace(events[at], **{name: other})
    try:
        lab = memory_map(Trace(crowded().header, events))
    except PagedlabError as error:
        assert "contradicts itself" in str(error)
        return
    for position in range(0, lab.num_steps + 1, 3):
        lab.seek(position)
        for selected in lab.state.requests:
            lab.select(selected)
            lab.text(), lab.marks(), [lab.pane(id) for id in lab.panes()]


@pytest.mark.parametrize("message", [None, [], "x", 5], ids=repr)
def test_a_message_that_is_none_changes_nothing(message):
    lab = memory_map(crowded())
    end = FrontEnd(lab)
    lab._receive(None, message, [])
    end.check()
    with pytest.raises(PagedlabError, match="no request"):
        lab.select([])


def test_a_front_end_that_returns_to_a_picture_with_nobody_selected_is_told_who_is():
    llm = tiny()
    llm.add_request("hello you", params(6))
    lab = memory_map(llm)
    end = FrontEnd(lab)
    before = llm.snapshot()
    llm.add_request("abc", params(2))
    lab.select("B")
    llm.restore(before)
    lab._keep_up()
    assert end.at == (1, None)
    end.show(2)
    assert end.at == (2, "A")
    lab._receive(None, {"do": "at", "position": 1, "selected": None}, [])  # a picture that it has kept
    assert (lab.position, lab.selected) == end.at == (1, "A")
    end.check()


@pytest.mark.parametrize(
    "message",
    [
        {"do": "dance"},
        {"do": 5},
        {"do": "show"},
        {"do": "show", "position": "x", "selected": "A"},
        {"do": "show", "position": None, "selected": "A"},
        {"do": "show", "position": True, "selected": "A"},
        {"do": "show", "position": 1, "selected": ["A"]},
        {"do": "show", "position": 1, "selected": "A", "have": 5},
        {"do": "show", "position": 1, "selected": "A", "have": [1, ["A"]]},
        {"do": "at", "position": 1},
        {"do": "point"},
        {"do": "point", "id": "block.x"},
        {"do": "drag", "what": "table.x", "onto": "block.1"},
        {"do": "pane"},
        {"do": "act", "pane": "follow", "name": "block", "values": {}},
        {"do": "act", "pane": "follow", "name": "step x", "values": {}},
        {"do": "act", "pane": "follow", "name": "block", "values": []},
    ],
    ids=str,
)
def test_a_message_that_no_front_end_sends_is_answered_in_one_sentence(message):
    lab, sent = memory_map(crowded()), []
    at = (lab.position, lab.selected)
    lab.send = lambda message, buffers=None: sent.append(message)
    lab._receive(None, message, [])
    assert [m.get("error") for m in sent] == [NOT_UNDERSTOOD] and (lab.position, lab.selected) == at


def test_a_block_that_is_no_number_is_answered_with_what_is_wanted():
    lab, sent = memory_map(crowded()), []
    lab.send = lambda message, buffers=None: sent.append(message)
    values = {"entry": "0 → #1", "block": "x"}
    lab._receive(None, {"do": "act", "pane": "grab", "name": "remap", "values": values}, [])
    assert "There is no block #'x'" in sent[-1]["error"]


def test_what_fails_in_an_engine_is_told_with_its_kind():
    llm = tiny()
    llm.add_request("hello", params(4))
    lab, sent = memory_map(llm), []
    llm.scheduler.schedule = lambda: {}["nothing"]
    lab.send = lambda message, buffers=None: sent.append(message)
    lab._receive(None, {"do": "show", "position": lab.num_steps + 1, "selected": None}, [])
    assert sent[-1]["error"] == "The step failed. KeyError: 'nothing'"
