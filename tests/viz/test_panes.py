"""What is folded away: code, a block's life, a token's place, edits and branches."""

import pytest
from runs import crowded
from test_lab import FrontEnd, params, tiny

from pagedlab.errors import PagedlabError
from pagedlab.viz import pane_code
from pagedlab.viz.lab import memory_map


def two_requests(**knobs):
    llm = tiny(**knobs)
    llm.add_request("Hi there", params(12))
    llm.add_request("Hello", params(9))
    return llm


def words(parts):
    return " ".join(str(part) for part in parts)


def test_the_code_pane_shows_the_function_that_did_it():
    lab = memory_map(two_requests())
    parts = lab.pane("code")
    (shown,) = [part for part in parts if part["kind"] == "code"]
    first, last = shown["marked"]
    marked = shown["lines"][first - shown["first"] : last - shown["first"]]
    assert marked[0].lstrip().startswith(("def ", "@")) and shown["title"].startswith("pagedlab/")
    for name, _, _ in parts[0]["buttons"]:
        lab.act("code", name, {})
        assert [b[2] for b in lab.pane("code")[0]["buttons"]].count(True) == 1
        assert lab.pane("code")[1]["kind"] == "code", name


def test_a_trace_from_elsewhere_imports_nothing():
    for source in ("antigravity:fly", "os:system", "pagedlab.nowhere:x", "pagedlab.kv:nothing", "", ":"):
        part = pane_code.source_part(source)
        assert part["kind"] in ("text", "code")
        if source.startswith("antigravity"):
            import sys

            assert "antigravity" not in sys.modules


def test_a_block_is_followed_through_time_and_a_token_is_found():
    lab = memory_map(crowded())
    lab.seek(lab.num_steps)
    lab.act("follow", "block", {"block": "#1"})
    said = words(lab.pane("follow"))
    assert "handed out to A" in said and "wrote" in said and "given up by" in said
    lab.act("follow", "step 2", {})
    assert lab.position == 2
    lab.act("find", "token", {"token": "physical"})
    assert "#" in words(lab.pane("find")) and "written in step" in words(lab.pane("find"))
    for pane, values in (("follow", {"block": "x"}), ("follow", {"block": "99"}), ("find", {"token": "zzz"})):
        lab.act(pane, next(iter(values)), values)
        assert "There is no block" in words(lab.pane(pane)) or "No token here" in words(lab.pane(pane))


def test_a_recording_offers_no_button_for_what_needs_an_engine():
    assert set(memory_map(crowded()).panes()) == {"code", "follow", "find"}
    assert set(memory_map(two_requests()).panes()) == {"code", "follow", "find", "grab", "branch"}


def test_an_entry_is_dragged_the_model_goes_on_with_it_and_undo_brings_all_back():
    llm = two_requests()
    lab = memory_map(llm, select="A")
    end = FrontEnd(lab)
    end.show(2)
    honest = memory_map(llm.rerun(2), select="A")
    honest.forward(3)
    target = lab.state.tables["B"][0]
    lab._receive(None, {"do": "drag", "what": "table.0", "onto": f"block.{target}"}, [])
    end.check()
    assert "edited by you" in end.pictures[end.at]["badge.text"][3]
    assert any("not its own" in part["text"] for part in lab.pane("grab") if part["kind"] == "text")
    end.show(3)
    end.show(4)
    end.check()
    assert "edited by you" in end.pictures[end.at]["badge.text"][3]
    lab._receive(None, {"do": "act", "pane": "grab", "name": "undo", "values": {}}, [])
    assert lab.position == 2 and not lab.state.edited
    for k in (3, 4, 5):
        end.show(k)
        end.check()
    assert lab.state.requests["A"].token_ids == honest.state.requests["A"].token_ids
    assert not end.errors


def test_the_past_and_a_recording_cannot_be_edited():
    lab = memory_map(two_requests(), select="A")
    lab.forward(2)
    lab.back()
    with pytest.raises(PagedlabError, match="past cannot be edited"):
        lab.remap(0, 5)
    assert "past cannot be edited" in words(lab.pane("grab"))
    with pytest.raises(PagedlabError, match="recorded run cannot be edited"):
        memory_map(crowded()).remap(0, 5)


def test_a_branch_shares_the_steps_before_it_and_is_compared_with_the_run_it_left():
    llm = two_requests()
    lab = memory_map(llm, select="A")
    end = FrontEnd(lab)
    lab.forward(4)
    before = len(llm.trace.events)
    values = {"knob": "(none)", "value": "", "prompt": "a third one", "victim": "(none)"}
    lab._receive(None, {"do": "act", "pane": "branch", "name": "branch", "values": values}, [])
    assert len(llm.trace.events) == before  # the run itself goes on as it was
    said = words(lab.pane("branch"))
    assert "Memory is not the same from step 6 on" in said and "C finished after step" in said
    lab._receive(None, {"do": "act", "pane": "branch", "name": "swap", "values": {}}, [])
    end.check()
    assert "branched at step 5" in end.pictures[end.at]["badge.text"][3] and lab.position == 5
    end.show(6)
    assert "C" in lab.state.requests
    lab.other_run()
    end.check()
    assert "C" not in lab.state.requests and not end.errors


def test_a_branch_takes_a_knob_or_a_victim_and_refuses_what_is_neither():
    llm = two_requests(num_gpu_blocks_override=8)
    lab = memory_map(llm, select="A")
    lab.forward(2)
    small = lab.branch(max_num_seqs=1)
    assert len(small.state.running) == 1
    for victim in ("A", "B"):
        branch = lab.branch(victim=victim)
        branch.forward(20)
        preempted = [e.request_id for e in branch.trace.events if e.kind == "request_preempted"]
        assert preempted[:1] == [victim]
    for values in (
        {"knob": "(none)"},
        {"knob": "block_size (now 4)", "value": "x"},
        {"knob": "block_size (now 4)", "value": "0"},
        {"knob": "(none)", "prompt": "x" * 500},
    ):
        with pytest.raises(PagedlabError):
            lab.act("branch", "branch", values)
