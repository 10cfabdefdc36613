"""The preemption lab: what it says and draws is what the two engines did."""

import json
import xml.etree.ElementTree as ET
from random import Random

import pytest

from pagedlab.bench.preemption import overload, run_out, work_done
from pagedlab.engine import LLM, SamplingParams
from pagedlab.errors import PagedlabError
from pagedlab.trace import replay, save
from pagedlab.viz import preemption
from pagedlab.viz.kit.marks import picture
from pagedlab.viz.victims.run import PreemptionHistory, is_short

PROMPTS = [[(7 * i + 3 * j) % 200 + 1 for j in range(n)] for i, n in enumerate((12, 14, 10, 11, 8))]


@pytest.fixture(scope="module")
def model():
    return LLM("tiny-random", record=False, block_size=4, num_gpu_blocks_override=8)


def both(model, **knobs):
    return [overload(model, how, PROMPTS, **knobs) for how in ("recompute", "swap")]


def finished(*engines):
    return [run_out(llm) for llm in engines]


@pytest.fixture
def lab(model):
    return preemption(*finished(*both(model)))


def texts(lab):
    return {m.id: m.text for m in lab.marks()}


def test_it_opens_where_somebody_first_makes_room_with_both_engines_at_the_same_step(lab):
    assert (lab.position, lab.num_steps, lab.selected) == (3, 30, "E")
    assert lab.title() == "Preemption, step 3. Memory ran out: E made room (right)"
    assert lab.run_names == ["recompute", "swap"]


def test_the_bill_is_what_the_traces_say(lab):
    lab.seek(lab.num_steps)
    for side, driver in enumerate(lab.drivers):
        done, price = work_done(driver.llm), lab.price(side)
        assert price.preemptions == done["preemptions"] == 3
        assert price.recomputed == done["recomputed_tokens"] == (34, 0)[side]
        assert price.carried * lab.histories[side].bytes_per_block == done["swapped_bytes"]
        assert price.found == done["found_tokens"] == (12, 0)[side]
        ended = [e for e in driver.trace.events if e.kind == "step_ended"]
        assert price.steps == len(ended) and price.seconds == pytest.approx(sum(e.seconds for e in ended))
    shown = texts(lab)
    assert [shown[f"price.again.{side}"] for side in (0, 1)] == ["34", "0"]
    assert [shown[f"price.moved.{side}"] for side in (0, 1)] == ["0 B", "72 KiB"]


@pytest.mark.parametrize("seed", range(6))
def test_the_bill_holds_for_random_workloads_and_each_victim_is_told_once(model, seed):
    rng = Random(seed)
    knobs = {
        "block_size": rng.choice([2, 4, 8]), "num_blocks": rng.randint(16, 30), "max_tokens": rng.randint(6, 20),
        "max_num_batched_tokens": 64, "num_cpu_blocks_override": rng.choice([4, 40]),
    }  # fmt: skip
    v1 = {name: value for name, value in knobs.items() if name != "num_cpu_blocks_override"}
    v1["max_num_batched_tokens"] = rng.choice([5, 64])  # a chunk may be preempted too
    prompts = [[rng.randint(1, 3) for _ in range(rng.randint(1, 14))] for _ in range(rng.randint(3, 9))]
    left, right = overload(model, "recompute", prompts, **v1), overload(model, "swap", prompts, **knobs)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("warnings.warn", lambda *a, **k: None)
        finished(left, right)
    lab = preemption(left, right)
    lab.seek(lab.num_steps)
    for side, llm in enumerate((left, right)):
        done, price = work_done(llm), lab.price(side)
        assert (price.recomputed, price.found) == (done["recomputed_tokens"], done["found_tokens"])
        assert price.carried * lab.histories[side].bytes_per_block == done["swapped_bytes"]
        preempted = [(e.request_id, e.how) for e in llm.trace.events if e.kind == "request_preempted"]
        assert [(a.request_id, a.how) for a in lab.histories[side].aways] == preempted
        assert all(away.back is not None for away in lab.histories[side].aways)


def test_each_step_shows_the_queues_the_blocks_and_the_cpu_pool_that_replay_gives(lab):
    requests = list(lab.histories[0].state.requests)
    for position in range(lab.num_steps + 1):
        lab.seek(position)
        marks = picture(lab.marks())
        for side, driver in enumerate(lab.drivers):
            state = replay(driver.trace, driver.num_events(min(position, driver.num_steps)))
            for lane, queue in enumerate((state.running, [*state.swapped, *state.waiting])):
                in_lane = {r: f"who.{requests.index(r)}.{side}" for r in queue}
                xs = [marks[id].place[0] for id in in_lane.values()]
                assert xs == sorted(xs) and all(marks[id].place[1] == 76 + 28 * lane for id in in_lane.values())
                assert marks[f"lane.{side}.{lane}.n"].text == str(len(queue))
            for block in range(state.num_blocks):
                owner = f"{side}~block.{block}.owner."
                assert {id.removeprefix(owner) for id in marks if id.startswith(owner)} == set(state.owners(block))
            shown = {id for id in marks if id.startswith(f"{side}~cpu.") and id.count(".") == 1}
            used = [b for table in state.cpu.tables.values() for b in table]
            assert len(shown - {f"{side}~cpu.{w}" for w in ("title", "says", "more")}) == min(len(used), 12)
            assert marks[f"pool.{side}.free"].text.startswith(f"{len(state.free)} of 18 blocks free")


def test_what_could_be_found_again_is_what_is_found(lab):
    lab.seek(16)
    shown = texts(lab)
    assert shown["gone.0.C.says"] == "12 of 20 tokens" and shown["gone.0.D.says"] == "0 of 16 tokens"
    lab.seek(17)
    assert texts(lab)["story.0.0"].startswith("C is back: 12 tokens found, 8 computed again.")
    assert texts(lab)["story.1.0"].startswith("C is back: 5 blocks (15 KiB) carried in.")


def test_a_victim_that_needed_no_block_is_told_with_the_rule_of_the_paper(model):
    """vLLM v0.2.0 asks for a free block for each request, also where its last one has room."""
    left, right = finished(*both(model))
    lab = preemption(left, right, step=3)
    shown = texts(lab)
    assert shown["story.1.0"] == "No free block at E's turn: E's 3 blocks go to the CPU."
    assert shown["story.1.1"] == "E's last block has room, but the rule wants a free one."
    assert shown["pool.1.free"].endswith("nobody goes on without a free one") and "nobody" not in shown["pool.0.free"]
    for llm, side in ((left, 0), (right, 1)):
        for i, event in enumerate(llm.trace.events):
            if event.kind == "request_preempted":
                state = replay(llm.trace, i)
                aways = lab.histories[side].aways
                away = next(a for a in aways if a.step == state.step and a.request_id == event.request_id)
                failed = max(j for j in range(i) if llm.trace.events[j].kind == "allocation_failed")
                before = replay(llm.trace, failed)
                room = len(before.tables[away.trigger]) * 4 - before.requests[away.trigger].num_computed_tokens
                assert away.needed == (room < 1) and (away.needed or side == 1)
    assert {a.needed for a in lab.histories[1].aways} == {True, False}


def test_the_pills_and_what_is_given_back_count_the_slots_that_are_drawn(lab):
    requests = list(lab.histories[0].state.requests)
    for position in range(1, lab.num_steps + 1):
        lab.seek(position)
        shown = texts(lab)
        for side, state in enumerate(lab.states):
            for r in state.running:
                drawn = sum(slot is not None for b in state.tables[r] for slot in state.slots[b])
                assert shown[f"who.{requests.index(r)}.{side}.n"] == str(drawn)
    lab.seek(4)
    assert texts(lab)["story.0.0"] == "No free block for B: E gives back 3 blocks (10 tokens)."
    assert texts(lab)["gone.0.E.says"] == "4 of 10 tokens"


def test_whoever_takes_a_block_that_could_be_found_is_named_and_the_numbers_are_those_of_the_bar(lab):
    takings = 0
    before = {}
    for position in range(lab.num_steps + 1):
        lab.seek(position)
        shown = texts(lab)
        now = {k: int(v.split()[0]) for k, v in shown.items() if k.startswith("gone.0.") and k.endswith(".says") and
               "of" in v}  # fmt: skip
        history = lab.histories[0]
        for away in history.aways:
            if position in away.lost:
                id = f"gone.0.{away.request_id}.says"
                count, takers = away.lost[position]
                assert before[id] - now[id] == count
                text = " ".join(t for k, t in shown.items() if k.startswith("story.0."))
                assert f"{count} tokens of {away.request_id} can be found no more" in text or text.endswith("…")
                got = [e for e in lab._events(0) if e.kind == "blocks_allocated"]
                assert all(any(e.request_id == who and b in e.block_ids for e in got) for who, b in takers)
                takings += 1
        for id in before.keys() & now.keys():
            if now[id] < before[id]:
                assert any(position in a.lost for a in history.aways)
        before = now
    assert takings


def test_each_block_that_is_carried_is_told_with_where_it_went(lab):
    for event in lab.drivers[1].trace.events:
        if event.kind == "blocks_swapped_out":
            away = next(a for a in lab.histories[1].aways if a.request_id == event.request_ids[0])
            assert away.moves[away.step] == list(zip(event.gpu_block_ids, event.cpu_block_ids, strict=True))
    lab.seek(3)
    shown = texts(lab)
    used = sorted(b for table in lab.states[1].cpu.tables.values() for b in table)
    assert shown["story.1.2"].startswith("#4, #3, #1 → CPU 17, 16, 15.") and used == [15, 16, 17]
    assert [shown[f"1~cpu.{b}.n"] for b in used] == ["CPU 15", "CPU 16", "CPU 17"]


def test_every_mark_has_its_word(lab):
    lab.seek(7)
    assert "pool.0.key" in texts(lab) and "null" in texts(lab)["0~block.0.word"]
    lab.seek(3)
    assert "pool.0.key" not in texts(lab)  # nothing is kept there now
    keys = {m.text for m in lab.strip().marks if m.id.startswith("chart.") and m.cls.startswith("text")}
    assert {"runs", "gave back", "on the CPU", "waits to start", "recompute", "swap"} <= keys
    left = {m.id: m.place[0] for m in lab.strip().marks}
    assert all(left[f"chart.name.{side}"] < 98 for side in (0, 1))


def test_who_goes_is_always_the_one_admitted_last_as_the_lab_says(lab):
    for side in (0, 1):
        for away in lab.histories[side].aways:
            lab.seek(away.step - 1)
            running = list(lab.states[side].running)
            lab.seek(away.step)
            assert running[-1] == away.request_id and "made room: admitted last." in lab.words()["verdict"]
    lab.seek(1)
    assert lab.words()["verdict"] == "All who run have room in the next step."


def test_the_chart_has_a_bar_for_each_stay_and_the_price_of_each_return(lab):
    marks = picture(lab.strip().marks)
    for side, history in enumerate(lab.histories):
        for row, (request_id, stays) in enumerate(history.stays.items()):
            assert [s.first for s in stays[1:]] == [s.last + 1 for s in stays[:-1]], "a gap"
            assert all(f"bar.{side}.{row}.{s.first}" in marks for s in stays), request_id
    assert marks["bar.0.2.12.t"].text == "8 again" and marks["bar.1.4.3.t"].text == "on the CPU, 18 KiB out and in"


def test_shortage_is_told_before_the_step_that_throws_somebody_out(model):
    for llm in finished(*both(model)):
        history, victims = PreemptionHistory(llm.trace), set()
        history.update()
        victims = {away.step for away in history.aways}
        ends = [0, *llm.trace.step_ends()]
        short = {k + 1 for k in range(len(ends) - 1) if is_short(replay(llm.trace, ends[k]))}
        assert short == victims


def test_who_makes_room_is_predicted_by_pointing_and_scored(model):
    lab = preemption(*both(model))
    assert lab.live and (lab.position, lab.num_steps) == (1, 1) and lab.words()["question"] == ""
    with pytest.raises(PagedlabError, match="nothing to predict"):
        lab.predict("A")
    lab.forward()
    assert lab.words()["question"] == "Memory is short (swap). Who makes room? Click in RUNS."
    askable = [m.id for m in lab.marks() if "askable" in m.cls]
    assert askable == [f"who.{i}.1" for i in range(5)]
    with pytest.raises(PagedlabError, match="does not run"):
        lab.predict("Z", 1)
    lab.point("who.0.1")
    assert lab.words()["question"].startswith("You say A (swap)")
    lab.forward()
    assert lab.words()["verdict"] == "You said A; E made room: admitted last. Score 0 of 1."
    lab.point("who.4.0")
    lab.forward()
    assert lab.words()["verdict"] == "✓ E made room: admitted last. Score 1 of 2."
    lab.back()
    with pytest.raises(PagedlabError, match="nothing to predict"):
        lab.predict("E")


def test_a_step_is_small_and_going_on_runs_both_engines_to_their_own_ends(model):
    lab, sizes = preemption(*both(model)), []
    lab.send = lambda message, buffers=None: sizes.append(len(json.dumps(message)))
    while lab.forward():
        pass
    assert [d.num_steps for d in lab.drivers] == [29, 30] and lab.position == 30
    assert max(sizes) < 20_000
    assert lab.title().endswith("All are done, after 29 steps (left) and 30 (right)")
    assert texts(lab)["story.0.0"] == "This run is over."


def test_the_pane_lists_each_victim_and_what_it_took(lab):
    lab.seek(12)
    rows = lab.pane("victims")[0]["rows"]
    assert rows[1] == ["recompute", "4", "E", "B", "3 (10 tokens)", "not yet", "", "0", "0 B"]
    lab.seek(30)
    rows = lab.pane("victims")[0]["rows"]
    assert rows[3] == ["recompute", "12", "C", "itself", "5 (20 tokens)", "17", "12", "8", "0 B"]
    assert rows[6] == ["swap", "12", "C", "itself", "5 (20 tokens)", "17", "0", "0", "30 KiB"]
    lab.seek(0)
    assert "Nobody" in lab.pane("victims")[0]["text"]


def test_a_saved_pair_shows_the_same_and_a_page_is_written(lab, tmp_path):
    paths = [save(d.trace, tmp_path / f"{i}.jsonl.gz") for i, d in enumerate(lab.drivers)]
    again = preemption(*paths, step=12)
    lab.seek(12)
    drawn = [[m for m in one.marks() if not m.id.startswith(("badge", "chip"))] for one in (again, lab)]
    assert drawn[0] == drawn[1]
    assert texts(again)["badge.text"].startswith("recorded · CPU") and not again.live
    page = lab.save_html(tmp_path / "page.html").read_text()
    assert "recorded · CPU" in page and lab.position == 12


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_static_picture_is_valid_and_inside_its_frame(lab, theme):
    for position in (0, 4, 12, 17, 30):
        lab.seek(position)
        root = ET.fromstring(lab.svg(theme))
        assert root.get("aria-label") == lab.title()
        for mark in picture(lab.static_marks()).values():
            if len(mark.place) == 4:
                assert 0 <= mark.place[0] <= mark.place[0] + mark.place[2] <= lab.SIZE[0], mark
                assert 0 <= mark.place[1] <= mark.place[1] + mark.place[3] <= lab.SIZE[1], mark
    assert "tokens computed again" in lab.text()


def test_many_requests_still_fit(model):
    prompts = [[i + 1] * 5 for i in range(20)]
    lab = preemption(*finished(*(overload(model, how, prompts, num_blocks=40) for how in ("recompute", "swap"))))
    marks = picture(lab.static_marks())
    assert "lane.0.0.more" in marks and "chips.more" in marks
    coarse = preemption(*(overload(model, how, prompts, num_blocks=700) for how in ("recompute", "swap")))
    assert "0~cell.0" in picture(coarse.static_marks()) and "1~cell.174" in picture(coarse.static_marks())
    too_many = [overload(model, how, [[1]] * 29, num_blocks=40) for how in ("recompute", "swap")]
    with pytest.raises(PagedlabError, match="at most 28"):
        preemption(*too_many)


def test_runs_of_different_requests_are_refused_and_so_are_steps_and_names_that_are_not_there(model, lab):
    other = overload(model, "swap", PROMPTS[:4])
    with pytest.raises(PagedlabError, match="do not serve the same requests"):
        preemption(overload(model, "recompute", PROMPTS), other)
    with pytest.raises(PagedlabError, match="recorded are 0 to 30"):
        lab.seek(31)
    with pytest.raises(PagedlabError, match="There is no step 99"):
        preemption(*(d.trace for d in lab.drivers), step=99)
    with pytest.raises(PagedlabError, match="no request 'Z'"):
        lab.select("Z")


def test_engines_that_end_before_the_step_asked_for_are_as_they_were(model):
    engines = both(model)
    engines[0].step()
    seen = [(llm.step_count, len(llm.trace.events), len(llm.requests)) for llm in engines]
    for wrong in ({"step": 999}, {"step": -1}, {"select": "Z"}, {"select": "Z", "step": 999}):
        with pytest.raises(PagedlabError, match="no step 999; .* 0 to 30" if wrong == {"step": 999} else None):
            preemption(*engines, **wrong)
        assert [(llm.step_count, len(llm.trace.events), len(llm.requests)) for llm in engines] == seen
    assert preemption(*engines, step=12).position == 12


def test_where_an_engine_is_set_back_the_lab_follows(model):
    engines = both(model)
    for llm in engines:
        llm.step()
    before = [llm.snapshot() for llm in engines]
    lab = preemption(*engines)
    lab.forward(5)
    for llm, moment in zip(engines, before, strict=True):
        llm.restore(moment)
        llm.add_request([5, 6, 7], SamplingParams(max_tokens=2, ignore_eos=True))
    lab.refresh()
    assert lab.position == 1 and "F" in lab.states[0].requests


def test_what_is_of_a_wrong_type_is_refused(model, lab):
    engines = finished(*both(model))
    for wrong in ({"step": "x"}, {"step": 1.5}, {"step": []}, {"select": []}):
        with pytest.raises(PagedlabError):
            preemption(*engines, **wrong)
    for side in (2, -1, "x", None):
        for call in (lab.price, lambda side: lab.predict("A", side)):
            with pytest.raises(PagedlabError, match="side is"):
                call(side)


def test_a_kept_picture_is_sent_again_where_it_is_no_longer_true(model):
    left, right = both(model)
    lab = preemption(left, right, step=1)
    sent = []
    lab.get_state("picture")
    lab.send = lambda message, buffers=None: sent.append(message)
    before = left.snapshot()
    lab.forward(2)
    left.restore(before)
    lab._keep_up()
    sent.clear()
    lab._receive(None, {"do": "at", "position": lab.position, "selected": lab.selected}, [])  # runs the left one again
    assert sent and sent[-1]["position"] == lab.position
    assert left.step_count == right.step_count
