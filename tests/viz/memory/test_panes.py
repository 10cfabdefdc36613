"""What is folded away: code, a block's life, a token's place, edits and branches."""

import pytest
from front_end import FrontEnd, params, tiny
from runs import crowded

from pagedlab.engine import BeamSearchParams, EngineDriver, SamplingParams
from pagedlab.errors import PagedlabError
from pagedlab.viz.memory import code as pane_code
from pagedlab.viz.memory.lab import memory_map
from pagedlab.viz.strips.run import serve


def two_requests(**knobs):
    llm = tiny(**knobs)
    llm.add_request("Hi there", params(12))
    llm.add_request("Hello", params(9))
    return llm


def two_answers():
    """The paper's era: two answers to one prompt, whose last block is shared and half full. Not run yet."""
    llm = tiny(era="paper", num_gpu_blocks_override=24)
    llm.add_request("Hi there yo", SamplingParams(max_tokens=9, n=2, temperature=1.0, ignore_eos=True))
    return llm


def words(parts):
    return " ".join(str(part) for part in parts)


def test_the_code_pane_shows_the_function_that_did_it():
    lab = memory_map(two_requests())
    lab.act("code", "blocks_allocated pagedlab.kv.block_pool:BlockPool.get_new_blocks", {})
    parts = lab.pane("code")
    (shown,) = [part for part in parts if part["kind"] == "code"]
    marked = [shown["lines"][n - shown["first"]] for n in shown["marked"]]
    assert marked == ["        blocks = self.free_block_queue.popleft_n(num_blocks)"]
    assert shown["title"].startswith("pagedlab/kv/block_pool.py · BlockPool.get_new_blocks · line ")
    for name, _, _ in parts[0]["buttons"]:
        lab.act("code", name, {})
        assert [b[2] for b in lab.pane("code")[0]["buttons"]].count(True) == 1
        assert lab.pane("code")[1]["kind"] == "code", name


def test_a_trace_from_elsewhere_imports_nothing():
    for source in ("antigravity:fly", "os:system", "pagedlab.nowhere:x", "pagedlab.kv:nothing", "", ":"):
        part = pane_code.source_part(source, "step_started")
        assert part["kind"] in ("text", "code")
        if source.startswith("antigravity"):
            import sys

            assert "antigravity" not in sys.modules


def test_a_block_is_followed_through_time_and_a_token_is_found():
    lab = memory_map(crowded())
    lab.seek(lab.num_steps)
    lab.act("follow", "block", {"block": "#1"})
    text = words(lab.pane("follow"))
    assert "handed out to A" in text and "wrote" in text and "given up by" in text
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
    assert set(memory_map(two_answers()).panes()) == {"code", "follow", "find", "grab", "cow", "branch"}


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
    text = words(lab.pane("branch"))
    assert "Memory is not the same from step 6 on" in text and "C finished after step" in text
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


def test_for_every_event_of_an_engine_the_lines_that_did_it_are_found_in_the_running_source():
    def run(llm):
        while llm.has_unfinished_requests():
            llm.step()
        return llm

    def two(n):
        return SamplingParams(max_tokens=16, n=n, temperature=1.0, ignore_eos=True)

    v1 = tiny(num_gpu_blocks_override=9, max_num_batched_tokens=16)
    for prompt in ("Hello you there", "Hello you", "abc"):
        v1.add_request(prompt, params(9))
    run(v1)
    v1.add_request("Hello you there you", params(2))
    v1.step()
    v1.remap("D", 0, 3)
    v1.abort_request("D")
    v1.block_pool.reset_prefix_cache()
    paper = tiny(era="paper", num_gpu_blocks_override=16, preemption="swap")
    for prompt in ("Hi there you al", "Hello to you tw"):
        paper.add_request(prompt, two(2))
    run(paper).beam_search("Hello", BeamSearchParams(beam_width=2, max_tokens=5))
    paper.add_request("abcde", params(5))
    paper.step()
    paper.set_copy_on_write(False)
    again = tiny(era="paper", num_gpu_blocks_override=16)
    for prompt in ("Hi there you al", "Hello to you tw"):
        again.add_request(prompt, two(2))
    traces = [llm.trace for llm in (v1, paper, run(again))]
    traces += serve([(3, 4), (5, 2), (6, 6)], 32, 24, 4).values()  # before paging
    pairs = {(e.kind, e.source) for trace in traces for e in trace.events}
    assert len(pairs) > 40
    for kind, source in sorted(pairs):
        part = pane_code.source_part(source, kind)
        marked = [part["lines"][n - part["first"]].strip() for n in part["marked"]]
        assert 1 <= len(marked) <= 8 and not any(line.startswith(("def ", "\"", "#")) for line in marked), (kind, part)
        assert "not known" not in part["title"]


class Renamed:
    """A learner's pool that says it in other words."""

    def take(self, n):
        """Take."""
        taken = self.mine[:n]
        return taken


class Stacked(Renamed):
    def get_new_blocks(self, n):
        # popleft_n( in a comment is no line that does anything
        return self._blocks(n)

    def _blocks(self, n):
        return self.queue.popleft_n(
            n,
        )


def test_a_learners_part_is_searched_in_the_same_way_and_nothing_is_claimed_where_nothing_is_found():
    part = pane_code.source_part(f"{__name__}:Stacked.get_new_blocks", "blocks_allocated")
    marked = [part["lines"][n - part["first"]].strip() for n in part["marked"]]
    assert marked == ["return self.queue.popleft_n(", "n,", ")"]
    assert "Stacked._blocks, called by Stacked.get_new_blocks" in part["title"]
    part = pane_code.source_part(f"{__name__}:Stacked.take", "blocks_allocated")
    assert "not known" in part["title"] and len(part["marked"]) == 4


def test_copy_on_write_switched_off_lets_one_answer_overwrite_the_other_and_undo_brings_all_back():
    llm = two_answers()
    lab = memory_map(llm, select="A/0")
    end = FrontEnd(lab)
    honest = memory_map(llm.rerun(1), select="A/0")
    honest.forward(4)
    assert {"block_copied"} <= {e.kind for e in honest.trace.events}
    assert "A copy" in words(lab.pane("cow")) or "gets a copy" in words(lab.pane("cow"))
    lab._receive(None, {"do": "act", "pane": "cow", "name": "switch off", "values": {}}, [])
    end.check()
    assert not lab.state.copy_on_write and "edited by you" in end.pictures[end.at]["badge.text"][3]
    end.show(2)
    end.check()
    state = lab.state
    assert state.tables["A/0"][-1] == state.tables["A/1"][-1]  # still shared, and both wrote into it
    assert "block_copied" not in {e.kind for e in lab.trace.events}
    slot = state.slots[state.tables["A/0"][-1]][state.requests["A/0"].num_computed_tokens % 4 - 1]
    assert slot.request_id == "A/1"
    assert any("A/0 reads 1 token" in part["text"] for part in lab.pane("cow") if part["kind"] == "text")
    assert "wrote" in end.pictures[end.at]["story"][3] and "over it" in lab.text()
    assert any(id.startswith("foreign.A/0.") for id in end.pictures[end.at])
    end.show(5)
    broken = lab.state.requests["A/0"].token_ids
    lab._receive(None, {"do": "act", "pane": "cow", "name": "undo", "values": {}}, [])
    assert lab.position == 1 and lab.state.copy_on_write and not lab.state.edited
    for k in (2, 3, 4, 5):
        end.show(k)
        end.check()
    assert lab.state.requests["A/0"].token_ids == honest.state.requests["A/0"].token_ids != broken
    assert not end.errors


def test_copy_on_write_can_be_switched_only_where_there_is_some():
    lab = memory_map(two_requests(), select="A")
    for wrong in (lambda: lab.copy_on_write(False), lambda: memory_map(crowded()).copy_on_write(False)):
        with pytest.raises(PagedlabError, match="V1 never copies|recorded run"):
            wrong()
    lab = memory_map(two_answers())
    lab.forward(2)
    lab.back()
    with pytest.raises(PagedlabError, match="past cannot be edited"):
        lab.copy_on_write(False)
    with pytest.raises(PagedlabError, match="True or False"):
        lab.driver.llm.set_copy_on_write(1)


def test_a_branch_with_another_prompt_for_a_request_shows_what_each_answer_became():
    llm = two_requests()
    lab = memory_map(llm, select="A")
    lab.forward(3)
    whose = next(f for f in lab.pane("branch")[1]["fields"] if f["name"] == "whose")
    assert whose["options"] == ["one more request", "A, instead of its own", "B, instead of its own"]
    values = {"knob": "(none)", "whose": whose["options"][1], "prompt": "something else", "victim": "(none)"}
    lab.act("branch", "branch", values)
    text = words(lab.pane("branch"))
    assert "A's prompt: something else" in text and "A said" in text and "B said" not in text
    lab.other_run()
    assert "".join(lab.state.requests["A"].texts[:3]) != "Hi " and "B" in lab.state.requests
    with pytest.raises(PagedlabError, match="no request 'Q'"):
        EngineDriver(llm).branch(2, replace={"Q": "x"})
