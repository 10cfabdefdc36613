"""Two runs stepped together: what is said, what is drawn, what is sent."""

import dataclasses
import json
import xml.etree.ElementTree as ET

import pytest
from front_end import FrontEnd, data_of

from pagedlab.errors import PagedlabError
from pagedlab.kv import BlockPool, KVCacheManager
from pagedlab.parity.sched_trace import FIELDS
from pagedlab.parity.side_by_side import golden, side_by_side
from pagedlab.trace import events as ev
from pagedlab.trace import replay
from pagedlab.viz import step_both
from pagedlab.viz.kit.marks import picture
from pagedlab.viz.side_by_side import layout


class InOrder(KVCacheManager):
    def free(self, request):
        self.block_pool.free_blocks(self.req_to_blocks.pop(request.request_id))
        del self.num_cached_block[request.request_id]


class AllToTheTail(BlockPool):
    """A pool with the wrong free order: blocks without a hash go to the tail too."""

    def free_blocks(self, ordered_blocks):
        blocks = list(ordered_blocks)
        for block in blocks:
            block.ref_cnt -= 1
        self.free_block_queue.append_n([b for b in blocks if b.ref_cnt == 0 and not b.is_null])


@pytest.fixture(scope="module")
def same():
    return side_by_side(golden("sched-02"))


@pytest.fixture(scope="module")
def broken():
    return side_by_side(golden("sched-02"), kv_cache_manager=InOrder)


def dashed(lab):
    return [mark.id for mark in lab.marks() if mark.cls == "over guess"]


def after_schedule(both, step):
    """Our side's memory in step ``step`` (from 1) when it was scheduled, by replaying its events."""
    events = both.trace.events
    start = next(i for i, e in enumerate(events) if isinstance(e, ev.StepStarted) and e.step == step)
    after = (ev.SlotWritten, ev.TokenSampled, ev.StepEnded)
    return replay(both.trace, next(i for i in range(start, len(events)) if isinstance(events[i], after)))


def drawn_blocks(marks, side):
    """{block: who has it or its turn}, as drawn."""
    found = {}
    for mark in marks.values():
        if mark.id.startswith(f"{side}.block.") and mark.id.endswith((".who", ".turn")):
            found[int(mark.id.split(".")[2])] = mark.text
    return found


def test_every_step_is_a_valid_picture_inside_its_frame(same):
    lab = step_both(same)
    for step in range(lab.num_steps + 1):
        lab.seek(step)
        for mark in picture(lab.static_marks()).values():
            if mark.cls.split()[0] in ("card", "cell", "over", "top"):
                x, y, w, h = mark.place
                assert x >= 0 and y >= 0 and x + w <= lab.SIZE[0] and y + h <= lab.SIZE[1], mark
        assert not dashed(lab)
    ET.fromstring(lab.svg("light")), ET.fromstring(lab.svg("dark"))


@pytest.mark.parametrize("parts", [{}, {"block_pool": AllToTheTail}])
def test_each_side_draws_what_it_holds_at_every_step(parts):
    both = side_by_side(golden("sched-02"), **parts)
    lab = step_both(both)
    for step in range(1, lab.num_steps + 1):
        lab.seek(step)
        marks = picture(lab.marks())
        state = after_schedule(both, step)
        owners = {}
        for request_id, table in state.tables.items():
            for block_id in dict.fromkeys(table):
                owners.setdefault(block_id, []).append(request_id)
        ours = drawn_blocks(marks, 1)
        for block_id in range(1, both.header["num_blocks"]):
            who = owners.get(block_id)
            if who:
                assert ours[block_id] in {" ".join(who), " ".join(who[::-1]), *(f"{r}+{len(who) - 1}" for r in who)}
            else:
                turn = state.free.index(block_id)
                assert ours[block_id] == ("next" if turn == 0 else layout.ordinal(turn + 1))
        theirs = drawn_blocks(marks, 0)
        for turn, block_id in enumerate(both.theirs[step - 1]["free"]):
            assert theirs[block_id] == ("next" if turn == 0 else layout.ordinal(turn + 1))
        for request_id, table in both.theirs[step - 1]["tables"].items():
            assert all(request_id in theirs[b].split() or "+" in theirs[b] for b in table)
        assert lab.different == both.different(step - 1)
        for field in layout.FIELDS:
            assert ("≠" in marks[f"field.{field}"].text) == (field in lab.different)


def test_the_lab_compares_the_fields_that_parity_compares():
    assert sorted(layout.FIELDS) == sorted(FIELDS)


def test_a_difference_is_outlined_said_and_counted(broken):
    lab = step_both(broken)
    first = broken.different_steps[0] + 1
    assert lab.position == first == lab.first_difference
    assert dashed(lab) and "1 of 10 fields differs: free." in lab.text()
    lab.back()
    assert not dashed(lab) and "The same in all 10 fields." in lab.text()
    differ = f"{len(broken.different_steps)} of 98 steps differ"
    assert differ in lab.text() and differ in picture(lab.marks())["strip.total"].text
    assert lab.counts["free"] == sum("free" in broken.different(i) for i in range(98))
    assert picture(lab.marks())["field.free.count"].text == str(lab.counts["free"])
    bars = [mark for mark in lab.strip().marks if mark.cls == "cell rule alarm"]
    assert len(bars) == len(broken.different_steps)


def test_a_pool_with_the_wrong_free_order_shows_differences():
    both = side_by_side(golden("sched-02"), block_pool=AllToTheTail)
    lab = step_both(both)
    assert both.different_steps and dashed(lab) and "free" in lab.different


def test_a_step_sends_only_what_changed_and_it_adds_up_both_ways(broken):
    lab = step_both(broken, step=0)
    end = FrontEnd(lab)
    for position in [*range(1, lab.num_steps + 1), *range(lab.num_steps - 1, -1, -1)]:
        end.show(position)
        assert end.pictures[end.at] == {m.id: m.to_json() for m in lab.marks()}
        assert end.strip == {m.id: m.to_json() for m in lab.strip().marks}
    assert max(end.sizes[1:]) < 20_000 and not end.errors
    assert end.message["run"]["over"] == ""
    lab.seek(lab.num_steps)
    assert end.message["run"]["over"] == "End of the recording"


def test_the_pane_lists_what_differs_and_goes_there(broken, same):
    lab = step_both(broken, step=0)
    table, buttons, *_ = lab.pane("differences")
    assert [row[0] for row in table["rows"][1:]] == [field for field, count in lab.counts.items() if count]
    lab.act("differences", buttons["buttons"][0][0], {})
    assert lab.position == lab.first_difference
    assert step_both(same).panes() == {}


def test_a_side_that_stopped_is_drawn_empty_and_says_why(same):
    stopped = dataclasses.replace(same, ours=same.ours[:5], error="RuntimeError: no")
    lab = step_both(stopped, step=6)
    ET.fromstring(lab.svg())
    assert "pagedlab has stopped: RuntimeError: no" in lab.text()
    assert lab.forward(3) == 3


def test_a_large_pool_is_drawn_coarser_and_says_so(same):
    header = dict(same.header, num_blocks=4096)
    lab = step_both(dataclasses.replace(same, header=header), step=11)
    marks = picture(lab.marks())
    assert "each cell stands for 16" in marks["0.coarse"].text
    assert not dashed(lab) and len(json.dumps(lab._message(whole=True))) < 200_000


def test_without_a_front_end_it_is_a_picture(same):
    data, _ = step_both(same, names=("vLLM v0.32.0", "ours"))._repr_mimebundle_()
    name = ET.fromstring(data["image/svg+xml"]).get("aria-label")
    assert name == "vLLM v0.32.0 and ours side by side, step 1. The same in all 10 fields."
    assert "text/html" not in data
    assert "scheduled" in data["text/plain"]


def test_the_saved_page_holds_every_step(broken, tmp_path):
    lab = step_both(broken)
    at = lab.position
    data = data_of(lab.save_html(tmp_path / "both.html").read_text(encoding="utf-8"))
    assert {m["position"] for m in [data["picture"], *data["recorded"]]} == set(range(99)) and lab.position == at
    texts = {mark[0]: mark[3] for mark in data["picture"]["set"] if mark[0].endswith("badge.text")}
    assert texts["0.badge.text"] == "recorded · vllm 0.32.0"
    assert texts["1.badge.text"].startswith("recorded · CPU, no model")


def test_a_step_that_is_not_recorded_is_refused(same):
    with pytest.raises(PagedlabError, match="recorded are 0 .* to 98"):
        step_both(same, step=99)


@pytest.mark.parametrize("wrong", [None, 5, "run.jsonl", object()], ids=lambda wrong: type(wrong).__name__)
def test_what_is_no_pair_of_runs_is_refused(wrong):
    with pytest.raises(PagedlabError, match="side_by_side"):
        step_both(wrong)


def test_which_block_is_handed_out_next_can_be_predicted_and_is_answered_by_the_recording(same):
    lab = step_both(same, step=0)
    end = FrontEnd(lab)
    right = wrong = 0
    for step in range(1, lab.num_steps + 1):
        events = [e for e in same.trace.events[: same.trace.step_ends()[step - 1]]]
        first = same.trace.step_ends()[step - 2] if step > 1 else 0
        got = {b for e in events[first:] if isinstance(e, ev.BlocksAllocated) for b in e.block_ids}
        got |= {e.block_id for e in events[first:] if isinstance(e, ev.BlockTouched)}
        asks = bool(lab.words()["question"])
        assert asks == bool(got) and set(lab._handed_out(step)) == got
        if asks:
            askable = {m.id for m in lab.marks() if "askable" in m.cls}
            assert {f"{side}.block.{b}" for side in (0, 1) for b in got} <= askable and "0.block.0" not in askable
            guess = min(got) if step % 2 else next(b for b in range(1, 40) if b not in got)
            lab._receive(lab, {"do": "point", "id": f"{step % 2}.block.{guess}", "n": step}, [])
            assert [m.id for m in lab.marks() if m.id.endswith(".guess")] == ["0.guess", "1.guess"]
            right, wrong = right + (guess in got), wrong + (guess not in got)
        else:
            with pytest.raises(PagedlabError, match="nothing to predict"):
                lab.predict(3)
        lab.forward()
        if asks:
            verdict = lab.words()["verdict"]
            assert verdict.startswith("✓" if guess in got else f"You said #{guess}; it was #"), verdict
            assert f"Score {right} of {right + wrong}." in verdict
    assert lab.score == (right, right + wrong) and right > 10 and wrong > 10 and not end.errors
    lab.seek(2)
    with pytest.raises(PagedlabError, match="seen"):
        lab.predict(3)
    for bad in (-1, 40):
        with pytest.raises(PagedlabError, match="no block"):
            lab.predict(bad)


def test_what_a_step_gives_and_takes_is_drawn_and_told_as_our_trace_has_it(same):
    """The bar is on what was got in this step, grey is what goes back after it, and found tokens are those found."""
    lab = step_both(same)
    ends = [0, *same.trace.step_ends()]
    for step in range(1, lab.num_steps + 1):
        lab.seek(step)
        marks = picture(lab.marks())
        events = same.trace.events[ends[step - 1] : ends[step]]
        got = {b for e in events if isinstance(e, ev.BlocksAllocated) for b in e.block_ids}
        touched = [e for e in events if isinstance(e, ev.BlockTouched)]
        got |= {e.block_id for e in touched}
        for side in (0, 1):
            mine = [mark for id, mark in marks.items() if id.startswith(f"{side}.block.")]
            assert {int(mark.id.split(".")[2]) for mark in mine if mark.id.endswith(".full")} == got
            grey = {int(mark.id.split(".")[2]) for mark in mine if mark.cls.startswith("card lost")}
            done = set(same.theirs[step - 1]["finished"])
            state = after_schedule(same, step)
            assert grey == {b for b in range(1, 40) if (o := set(state.owners(b))) and o <= done}
        scene = lab._scene()
        for e in events:
            if isinstance(e, ev.RequestAdmitted):
                assert layout.hits(scene, 1, e.request_id) == e.num_computed_tokens
        shared = {e.block_id for e in touched if not e.revived}
        new, also = layout.taken(scene, 1)
        assert new | also == got and also <= shared


def test_a_colour_does_not_go_from_one_who_is_done_to_the_next(same):
    lab = step_both(same)
    done, gone, seen = set(), set(), set()
    for step, tables in zip(same.theirs, lab._tables[0], strict=True):
        now = [lab._hues[r] for r in tables]
        assert len(set(now)) == len(now), "two at once"
        new, seen = set(tables) - seen, seen | set(tables)
        if {lab._hues[r] for r in new} & {lab._hues[r] for r in gone}:  # only where there is no other left
            assert {lab._hues[r] for r in (seen - done) | gone} == set(range(8))
        gone = set(step["finished"])
        done |= gone
    assert lab._hues["r8"] != lab._hues["r0"]
    assert [lab._hues[f"r{i}"] for i in range(8)] == [7, 6, 5, 4, 3, 2, 1, 0]


def test_one_counting_of_steps(same):
    lab = step_both(same, step=11)
    marks = picture(lab.marks())
    assert marks["0.field.step"].text == "11 (in the recording 10: counted from 0)"
    assert marks["legend.1"].text == "8 of 30 came" and marks["0.block.1.who"].text == "r0 r3"
    assert marks["0.field.preempted"].text == "r7, had #33 #34 #35 #36 #37"
    assert marks["0.field.finished"].text == "r4, then gives back #22 #32 #37"
