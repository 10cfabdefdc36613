"""The lab of shares: its bars are what the scheduler gave, its lanes the order in which things happened."""

import json
import warnings

import pytest

from pagedlab.bench.preemption import run_out
from pagedlab.engine import LLM, EngineDriver, SamplingParams
from pagedlab.errors import PagedlabError
from pagedlab.trace import Trace, recorded, save
from pagedlab.viz import plan_and_run, token_budget
from pagedlab.viz.kit.marks import picture


@pytest.fixture(scope="module")
def model():
    return LLM("tiny-random", block_size=4, num_gpu_blocks_override=8)


def engine(model, lengths=(9, 7, 5), later=(60, 20), **knobs):
    """Some that decode, then longer ones: queued, not run to the end. ``scheduled``: what the scheduler decided."""
    small = {"block_size": 4, "num_gpu_blocks_override": 80, "max_num_batched_tokens": 24}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        llm = LLM(model, record=True, **small | knobs)
    llm.scheduled, schedule = [], llm.scheduler.schedule

    def watched():
        output = schedule()
        llm.scheduled.append(dict(output.num_scheduled_tokens))
        return output

    llm.scheduler.schedule = watched
    for i, n in enumerate(lengths):
        prompt = [(3 * i + 7 * j) % 200 + 1 for j in range(n)]
        llm.add_request(prompt, SamplingParams(max_tokens=8 + 3 * i, ignore_eos=True))
    llm.step()
    for n in later:
        llm.add_request([(5 * j + n) % 200 + 1 for j in range(n)], SamplingParams(max_tokens=5, ignore_eos=True))
    return llm


def texts(lab):
    return {mark.id: mark.text for mark in lab.marks()}


KNOBS = [{}, {"async_scheduling": True}, {"num_gpu_blocks_override": 22}, {"enable_chunked_prefill": False,
         "max_model_len": 70, "max_num_batched_tokens": 70}, {"max_num_batched_tokens": 8192}]  # fmt: skip


@pytest.mark.parametrize("knobs", KNOBS, ids=str)
def test_each_step_has_the_scheduler_s_shares_in_its_order(model, knobs):
    lab = token_budget(engine(model, **knobs))
    while lab.forward():
        pass
    decided = lab.driver.llm.scheduled
    made = [lab.shares(step) for step in range(1, lab.num_steps + 1)]
    assert [list(shares.items()) for shares in made if shares] == [list(one.items()) for one in decided if one]
    for step in range(1, lab.num_steps + 1):
        lab.seek(step)
        bars = [mark for mark in lab.marks() if mark.id.startswith("share.") and mark.cls.startswith("cell")]
        assert len(bars) == len(made[step - 1])
        assert [mark.place[0] for mark in bars] == sorted(mark.place[0] for mark in bars)
        assert not bars or bars[-1].place[0] + bars[-1].place[2] <= 936
        picture(lab.marks())  # no id twice


def test_the_bar_is_to_scale_and_what_is_left_of_the_budget_stands_in_it(model):
    lab = token_budget(engine(model))
    lab.forward(1)
    bars = {mark.id: mark for mark in lab.marks()}
    shares = list(lab.shares(lab.position).values())
    assert shares == [1, 1, 1, 21]
    wide = [bars[f"share.{i}"].place[2] + 1 for i in range(4)]
    assert wide[3] / wide[0] == pytest.approx(21, rel=0.01)
    assert texts(lab)["head.line"] == "Step 2: 24 of 24 tokens: 21 of D and one each of 3 others"
    assert texts(lab)["row.3.next"] == "39" and texts(lab)["row.4.next"] == "20"
    lab.seek(1)
    assert texts(lab)["bar.left"] == "3 not used"


def test_a_prediction_is_answered_by_the_next_step_and_the_truth_is_always_offered(model):
    lab, right = token_budget(engine(model)), 0
    assert "How many tokens of D" in lab.words()["question"]
    with pytest.raises(PagedlabError, match="17 is not offered; there are: 0, 1, 4, 21, 24, 60"):
        lab.predict(17)
    lab.predict(60)
    assert "You say 60 of D" in lab.words()["question"]
    lab.forward()
    assert lab.words()["verdict"] == "You said 60; 21 tokens of D ran in step 2. Score 0 of 1."
    while lab._open_question():
        who, answers = lab._open_question()
        position = lab.position
        twin = lab.driver.llm.rerun(position + 1)
        actual = sum(e.kind == "slot_written" and e.request_id == who
                     for e in twin.trace.events[twin.trace.step_ends()[position - 1] :])  # fmt: skip
        assert actual in answers
        lab.point(f"answer.{actual}")
        lab.forward()
        right += 1
        assert lab.words()["verdict"].startswith("✓") and lab.score == (right, right + 1)
    with pytest.raises(PagedlabError, match="nothing to predict"):
        lab.predict(1)


def test_what_waits_and_is_in_memory_need_not_be_computed(model):
    llm = engine(model, lengths=(17,), later=())
    llm.add_request([(7 * j) % 200 + 1 for j in range(17)], SamplingParams(max_tokens=4, ignore_eos=True))
    lab = token_budget(llm)
    assert texts(lab)["row.1.next"] == "1, the rest is in memory"
    lab.forward()
    assert lab.shares(2) == {"A": 1, "B": 1} and "B comes in and finds 16" in lab.words()["say"]


def test_two_lanes_one_step_ahead_a_plan_stands_beside_the_step_before(model):
    lab = plan_and_run(engine(model, async_scheduling=True))
    lab.forward(6)
    shown, n = texts(lab), lab.position
    marks = {mark.id: mark.place for mark in lab.marks()}
    assert marks[f"plan.{n}"][0] == marks[f"run.{n - 1}"][0] and f"run.{n}" not in marks
    assert shown[f"plan.{n}.0"].startswith("1 ?")
    one_by_one = plan_and_run(engine(model))
    one_by_one.forward(3)
    marks = {mark.id: mark.place for mark in one_by_one.marks()}
    n = one_by_one.position
    assert marks[f"plan.{n}"][0] + marks[f"plan.{n}"][2] < marks[f"run.{n}"][0] < marks[f"plan.{n}"][0] + 220
    assert not any("?" in text for id, text in texts(one_by_one).items() if id.startswith("plan."))


def sentences(lab):
    found = []
    for step in range(lab.num_steps + 1):
        lab.seek(step)
        found.append(" ".join(text for id, text in texts(lab).items() if id.startswith("says.")))
    return found


def test_what_overlap_changes_is_told_where_it_happens(model):
    llm = engine(model, async_scheduling=True)
    run_out(llm)
    answer = [e.token_id for e in llm.trace.events if e.kind == "token_sampled" and e.request_id == "A"]
    lab = plan_and_run(llm)
    of_length = " ".join(sentences(lab))
    assert "A's last token was under way when plan" in of_length and "its blocks were still taken" in of_length
    assert "for a token that nobody knew yet" in of_length

    stopped = engine(model, lengths=(), later=(), async_scheduling=True)
    params = SamplingParams(max_tokens=8, ignore_eos=True, stop_token_ids=[answer[3]])
    stopped.add_request([(7 * j) % 200 + 1 for j in range(9)], params)
    lab = plan_and_run(run_out(stopped))
    found = sentences(lab)
    at = next(i for i, text in enumerate(found) if "one token too many is computed, and dropped" in text)
    lab.seek(at + 1)
    assert texts(lab)[f"run.{at}.0"] == "token dropped"
    assert len([e for e in stopped.trace.events if e.kind == "token_sampled"]) == answer.index(answer[3]) + 1


def test_a_victim_whose_last_token_is_under_way_is_told_as_one(model):
    """What happens in the pair of recordings of chapter 13: r4 is thrown out, and done with the token that comes."""
    llm = engine(model, lengths=(), later=(), async_scheduling=True, num_gpu_blocks_override=6)
    llm.add_request([3] * 11, SamplingParams(max_tokens=6, ignore_eos=True))
    llm.add_request([4] * 7, SamplingParams(max_tokens=2, ignore_eos=True))
    lab = plan_and_run(run_out(llm))
    thrown = next(e for e in llm.trace.events if e.kind == "request_preempted")
    found = sentences(lab)
    at = next(i for i, text in enumerate(found) if "B was thrown out while its last token was being sampled" in text)
    lab.seek(at)
    assert thrown.request_id == "B" and "thrown out" in texts(lab).values()
    assert not any("B's last token was under way when plan" in text for text in found)


def test_it_opens_from_an_engine_a_driver_a_trace_and_a_file(model, tmp_path):
    llm = run_out(engine(model))
    path = save(llm.trace, tmp_path / "run.jsonl.gz")
    past = as_recorded(llm.trace)
    for what in (llm, EngineDriver(llm), past, path):
        lab = token_budget(what, step=2)
        assert lab.shares(2) == {"A": 1, "B": 1, "C": 1, "D": 21}
    assert "step 2 of" in lab.svg() and "21" in lab.text()
    assert "Token budget, step 2" in lab.save_html(tmp_path / "page.html").read_text(encoding="utf-8")
    of_vllm = plan_and_run(recorded("vllm-async"))
    assert of_vllm._history.ahead and of_vllm.budget == 256
    assert any("nobody knew yet" in text for text in sentences(of_vllm))


def as_recorded(trace):
    return Trace(trace.header | {"live": False}, trace.events)


def test_a_page_asks_what_its_recording_answers(model):
    lab = token_budget(as_recorded(run_out(engine(model)).trace), step=2)
    [question] = lab.asks()
    assert question.right == {"answer.21": "✓ 21 tokens of D ran in step 3."} and "answer.39" in question.of
    assert lab.name_of("answer.60") == "60"
    json.dumps(question.for_page())


def test_what_it_cannot_show_is_refused(model):
    with pytest.raises(PagedlabError, match="cannot show a int"):
        token_budget(7)
    with pytest.raises(PagedlabError, match="There is no step 99"):
        token_budget(engine(model)).shares(99)
    strip = Trace({"schema": 1, "config": {"era": "contiguous", "num_blocks": 4, "block_size": 1}}, [])
    with pytest.raises(PagedlabError, match="tells of no such steps"):
        token_budget(strip)
