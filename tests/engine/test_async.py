"""One step ahead: step k+1 is planned before the tokens of step k are there, and nobody's answer changes."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pagedlab.engine import LLM, EngineDriver, Remap, SamplingParams, Scheduler
from pagedlab.engine.async_scheduler import AsyncScheduler
from pagedlab.engine.refusals import NOTHING_TO_OVERLAP
from pagedlab.errors import PagedlabError
from pagedlab.executor.counting import CountingExecutor
from pagedlab.kv import KVCacheManager
from pagedlab.trace import replay
from pagedlab.trace.invariants import first_broken

PARAMS = SamplingParams(max_tokens=12, ignore_eos=True)
PROMPTS = [[(11 * i + 7 * j) % 250 for i in range(5 + 6 * j)] for j in range(5)]
ROOMY = {"num_gpu_blocks_override": 64, "block_size": 4}


class Diary(CountingExecutor):
    """Writes down what it is asked, in which order."""

    def __init__(self):
        super().__init__()
        self.calls, self.batches = [], []

    def submit(self, batch, sampling):
        self.batches.append([(part.request_id, part.start, part.end, part.is_awaited) for part in batch])
        number = len(self.batches)
        self.calls.append(("submit", number))
        return number, super().submit(batch, sampling)

    def collect(self, handle):
        self.calls.append(("collect", handle[0]))
        return super().collect(handle[1])


def counting(**knobs) -> LLM:
    return LLM(executor=Diary(), **ROOMY | {"record": True} | knobs)


def answers(outputs) -> list[list[int]]:
    return [answer.token_ids for output in outputs for answer in output.outputs]


def test_the_next_step_is_planned_and_sent_off_before_the_last_one_is_waited_for():
    llm = counting(async_scheduling=True)
    llm.generate([PROMPTS[0]], PARAMS)
    order = llm.executor.calls
    assert order[:5] == [("submit", 1), ("submit", 2), ("collect", 1), ("submit", 3), ("collect", 2)]
    assert order[-3:] == [("submit", 12), ("collect", 11), ("collect", 12)], "one of 12 tokens, none too many"
    assert [parts[0] for parts in llm.executor.batches] == [
        ("A", 0, 5, False), *[("A", at, at + 1, True) for at in range(5, 16)]
    ]  # fmt: skip

    one_by_one = counting()
    one_by_one.generate([PROMPTS[0]], PARAMS)
    assert one_by_one.executor.calls[:4] == [("submit", 1), ("collect", 1), ("submit", 2), ("collect", 2)]
    assert not any(awaited for parts in one_by_one.executor.batches for *_, awaited in parts)


def test_a_step_returns_what_the_step_before_gave():
    llm = counting(async_scheduling=True)
    llm.add_request(PROMPTS[0], dataclasses.replace(PARAMS, max_tokens=2))
    assert llm.step() == [], "the prompt is under way"
    assert [len(output.outputs[0].token_ids) for output in llm.step()] == [1]
    assert llm.has_unfinished_requests()
    (output,) = llm.step()
    assert output.finished and len(output.outputs[0].token_ids) == 2
    while llm.has_unfinished_requests():
        assert llm.step() == []
    assert llm.step() == [] and not llm.under_way


@pytest.mark.parametrize("knobs", [
    {}, {"num_gpu_blocks_override": 14}, {"max_num_batched_tokens": 6}, {"enable_prefix_caching": False},
    {"num_gpu_blocks_override": 11, "max_num_batched_tokens": 9, "max_num_seqs": 3},
], ids=str)  # fmt: skip
def test_answers_are_those_of_steps_one_by_one(knobs):
    prompts = [PROMPTS[1], *PROMPTS]
    params = [PARAMS, *[dataclasses.replace(PARAMS, max_tokens=n) for n in range(5, 10)]]
    for kind in ({}, {"temperature": 0.9, "top_k": 40, "seed": 3}):
        wanted = [dataclasses.replace(one, **kind) for one in params]
        one_by_one, ahead = counting(**knobs), counting(async_scheduling=True, **knobs)
        assert answers(ahead.generate(prompts, wanted)) == answers(one_by_one.generate(prompts, wanted))
        assert first_broken(ahead.trace) is None
        preempted = replay(ahead.trace).counts.get("request_preempted")
        assert bool(preempted) == (knobs.get("num_gpu_blocks_override", 64) < 20)
        nothing_is_left(ahead)


def nothing_is_left(llm):
    assert not (llm.under_way or llm.requests or llm.tables or llm.groups)
    assert llm.block_pool.get_num_free_blocks() == llm.num_blocks - 1


@pytest.mark.parametrize("at", range(8))
def test_a_stop_is_noticed_a_step_late_and_the_token_too_many_is_dropped(at):
    whole = answers(counting().generate(PROMPTS[:1], PARAMS))[0]
    params = dataclasses.replace(PARAMS, stop_token_ids=[whole[at]])
    llm = counting(async_scheduling=True)
    outputs = llm.generate(PROMPTS[:1], params)
    first = whole.index(whole[at])
    assert answers(outputs) == [whole[: first + 1]] and outputs[0].outputs[0].finish_reason == "stop"
    sampled = [event.token_id for event in llm.trace.events if event.kind == "token_sampled"]
    assert sampled == whole[: first + 1], "the trace knows nothing of it"
    assert len(llm.executor.batches) == first + 2, "it was computed all the same"
    nothing_is_left(llm)


def test_a_stop_string_that_lies_across_tokens_ends_an_answer_where_it_does_one_by_one():
    text = counting().generate("ab", PARAMS)[0].outputs[0].text
    for first in range(len(text) - 2):
        params = dataclasses.replace(PARAMS, stop=text[first : first + 2])
        pair = [counting(async_scheduling=ahead).generate("ab", params)[0].outputs[0] for ahead in (False, True)]
        assert pair[0] == pair[1]


def test_a_victims_last_token_is_its_own_and_it_waits_for_it():
    llm = counting(async_scheduling=True, num_gpu_blocks_override=10)
    for prompt in (PROMPTS[1], PROMPTS[2]):
        llm.add_request(prompt, PARAMS)
    while not any(request.status == "preempted" for request in llm.requests.values()):
        llm.step()
    (victim,) = llm.scheduler.waiting
    held = victim.num_tokens
    assert victim.num_computed_tokens == victim.num_output_placeholders == 0
    assert not victim.num_stale_output_tokens, "the step in which it was thrown out took in its last token"
    sampled = [event for event in llm.trace.events if event.kind == "token_sampled" and event.request_id == "B"]
    assert sampled[-1].position == held - 1
    thrown = [i for i, e in enumerate(llm.trace.events) if e.kind == "request_preempted"]
    assert llm.trace.events.index(sampled[-1]) < thrown[0], "the trace tells it in the order of the device"


def test_who_waits_for_a_token_keeps_its_place_and_others_pass():
    scheduler = AsyncScheduler(KVCacheManager(counting().block_pool, 4, 64), max_num_seqs=2, max_num_batched_tokens=99,
                               max_model_len=64)  # fmt: skip
    llm = counting()
    for prompt in PROMPTS[:4]:
        llm.add_request(prompt, PARAMS)
    scheduler.waiting.extend(llm.scheduler.waiting)
    first, second, third, fourth = scheduler.waiting
    first.num_stale_output_tokens = third.num_stale_output_tokens = 1
    assert [request.request_id for request in scheduler.schedule().new] == ["B", "D"]
    assert [*scheduler.waiting] == [first, third]


def test_an_abort_drops_what_is_under_way_and_the_name_is_free_again():
    llm = counting(async_scheduling=True)
    llm.add_request(PROMPTS[0], PARAMS, request_id="X")
    llm.add_request(PROMPTS[1], PARAMS, request_id="Y")
    llm.step()
    llm.step()
    llm.abort_request("X")
    llm.add_request(PROMPTS[2], PARAMS, request_id="X")
    done = {}
    while llm.has_unfinished_requests():
        done |= {output.request_id: output for output in llm.step()}
    assert answers(done.values()) == answers(counting().generate([PROMPTS[1], PROMPTS[2]], PARAMS))
    assert list(done) == ["Y", "X"] and first_broken(llm.trace) is None
    nothing_is_left(llm)


@pytest.mark.parametrize("where", ["submit", "collect"])
@pytest.mark.parametrize("after", range(4))
def test_an_interrupt_loses_what_is_under_way_and_nothing_else(where, after):
    llm = counting(async_scheduling=True)
    expected = answers(counting().generate(PROMPTS[:3], PARAMS))
    for prompt in PROMPTS[:3]:
        llm.add_request(prompt, PARAMS)
    for _ in range(after + 1):
        llm.step()
    method = getattr(llm.executor, where)
    setattr(llm.executor, where, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        llm.step()
    setattr(llm.executor, where, method)
    assert not llm.under_way
    done = {}
    while llm.has_unfinished_requests():
        done |= {output.request_id: output for output in llm.step()}
    assert answers(done[name] for name in "ABC") == expected
    nothing_is_left(llm)


def test_a_snapshot_waits_for_what_is_under_way_and_can_be_gone_back_to():
    llm = counting(async_scheduling=True)
    for prompt in PROMPTS[:3]:
        llm.add_request(prompt, PARAMS)
    for _ in range(4):
        llm.step()
    kept = llm.snapshot()

    def to_the_end():
        done = {}
        while llm.has_unfinished_requests():
            done |= {output.request_id: output for output in llm.step()}
        return answers(done[name] for name in "ABC")

    expected = answers(counting().generate(PROMPTS[:3], PARAMS))
    assert to_the_end() == expected
    length = len(llm.trace.events)
    llm.restore(kept)
    assert to_the_end() == expected and len(llm.trace.events) == length


def test_labs_step_branch_and_edit_an_engine_that_is_ahead():
    llm = counting(async_scheduling=True)
    llm.add_request(PROMPTS[1], PARAMS)
    driver = EngineDriver(llm)
    while driver.can_step:
        driver.step()
    assert first_broken(llm.trace) is None
    other = driver.branch(5, prompt=PROMPTS[0], max_tokens=4)
    other.apply(Remap("A", 0, 60))
    other.undo()
    while other.can_step:
        other.step()
    tokens = replay(other.llm.trace).requests["A"].token_ids
    assert tokens == PROMPTS[1] + answers(counting().generate([PROMPTS[1]], PARAMS))[0]


@pytest.mark.parametrize("given, words", [
    ({"era": "paper"}, 'needs era="v1"'),
    ({"async_scheduling": 1}, "async_scheduling is 1; it must be True or False"),
    ({"scheduler": type("Own", (Scheduler,), {})}, "needs a scheduler that plans one step ahead"),
    ({"kv_cache_manager": lambda *parts: object()}, r"a manager with cache_blocks\(request"),
], ids=["the paper's era", "no bool", "another scheduler", "another manager"])  # fmt: skip
def test_what_cannot_be_planned_ahead_is_refused(given, words):
    with pytest.raises(PagedlabError, match=words):
        LLM(executor=CountingExecutor(), **ROOMY | {"async_scheduling": True} | given)


def test_on_a_cpu_it_says_once_that_no_time_is_gained(recwarn):
    llm = LLM("tiny-random", device="cpu", async_scheduling=True, **ROOMY)
    assert [str(one.message) for one in recwarn] == [NOTHING_TO_OVERLAP]
    LLM(llm, async_scheduling=True, **ROOMY)
    counting(async_scheduling=True)
    assert len(recwarn) == 1


class Brief(CountingExecutor):
    """Knows seven words, and answers quickly."""

    def _logits(self, context, tables):
        size, (blocks,) = self._block_size, tables
        return brief_logits(tuple(self._pool[blocks[at // size]][at % size] for at in range(context)))


def brief_logits(seen):
    return [hash((seen, word)) for word in range(7)]


def brief_answer(tokens, params, most=18):
    """What it says where there are no pages."""
    known = list(tokens)
    while len(known) < min(most, len(tokens) + params.max_tokens):
        logits = brief_logits(tuple((token, at) for at, token in enumerate(known)))
        known.append(logits.index(max(logits)))
        if known[-1] in params.stop_token_ids:
            break
    return known[len(tokens) :]


class AheadMachine(RuleBasedStateMachine):
    """An engine one step ahead, on a pool that is too small, asked for anything in any order."""

    @initialize(num_blocks=st.integers(8, 14), block_size=st.integers(3, 4), caching=st.booleans(),
                max_num_seqs=st.integers(1, 4), budget=st.integers(1, 12))  # fmt: skip
    def start(self, num_blocks, block_size, caching, max_num_seqs, budget):
        self.llm = LLM(
            executor=Brief(), async_scheduling=True, record=True, num_gpu_blocks_override=num_blocks,
            block_size=block_size, enable_prefix_caching=caching, max_num_seqs=max_num_seqs,
            max_num_batched_tokens=budget, max_model_len=18,
        )  # fmt: skip
        self.looked_at = 0
        self.wanted = {}

    @rule(tokens=st.lists(st.integers(0, 1), min_size=1, max_size=14), max_tokens=st.integers(1, 20),
          stops=st.sets(st.integers(0, 6), max_size=3))  # fmt: skip
    def arrive(self, tokens, max_tokens, stops):
        params = SamplingParams(max_tokens=max_tokens, ignore_eos=True, stop_token_ids=sorted(stops))
        self.wanted[self.llm.add_request(tokens, params)] = tokens, params

    @rule()
    def step(self):
        for output in self.llm.step():
            if output.finished:
                tokens, params = self.wanted.pop(output.request_id)
                assert answers([output]) == [brief_answer(tokens, params)]
        assert len(self.llm.under_way) <= 1

    @precondition(lambda self: self.wanted)
    @rule(pick=st.integers(0, 99))
    def abort(self, pick):
        request_id = list(self.wanted)[pick % len(self.wanted)]
        self.llm.abort_request(request_id)
        del self.wanted[request_id]

    @invariant()
    def every_request_runs_or_waits_once(self):
        if hasattr(self, "llm"):
            scheduler = self.llm.scheduler
            names = [request.request_id for request in (*scheduler.running, *scheduler.waiting)]
            assert sorted(names) == sorted(self.llm.requests) == sorted(self.wanted)

    def teardown(self):
        if hasattr(self, "llm"):
            for _ in range(500):
                if not self.llm.has_unfinished_requests():
                    break
                self.step()
            nothing_is_left(self.llm)
            assert first_broken(self.llm.trace) is None


TestAhead = pytest.mark.slow(AheadMachine.TestCase)
TestAhead.settings = settings(max_examples=1000, stateful_step_count=20, deadline=None,
                              suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])  # fmt: skip
