"""Each fault breaks its rule, its honest twin breaks none, and the trace is real and gives nothing away."""

import pytest

from pagedlab.engine import LLM, SamplingParams
from pagedlab.hunt import EXAMPLE, FAULTS, honest, record
from pagedlab.hunt.parts import Trusting
from pagedlab.hunt.stress import KNOBS, stress
from pagedlab.hunt.words import first_wrong_word
from pagedlab.kv import KVCacheManager
from pagedlab.trace import load, replay, save
from pagedlab.trace.invariants import broken, first_broken

ALL = {**FAULTS, EXAMPLE.name: EXAMPLE}


@pytest.fixture(scope="module")
def model():
    return LLM("tiny-random", device="cpu", num_gpu_blocks_override=2)


@pytest.mark.parametrize("name", ALL)
def test_a_fault_breaks_its_rule_first_and_the_same_workload_without_it_none(name, model):
    for seed in range(3):
        finding = first_broken(record(name, seed, model))
        assert finding and finding.rule == ALL[name].rule, finding
        assert 0 < finding.step and finding.block_ids
        clean = honest(name, seed, model)
        assert first_broken(clean) is None and broken(replay(clean)) == [] and not clean.header["crash"]


def test_owners_that_are_counted_wrongly_show_in_the_event_that_counts_them(model):
    for seed in range(3):
        run = record("missing owner", seed, model)
        finding = first_broken(run)
        event, state = run.events[finding.event], replay(run, finding.event + 1)
        assert event.kind == "block_touched" and len(state.owners(event.block_id)) == 2
        assert event.ref_cnt == state.ref_cnt[event.block_id] == 1


def test_a_block_that_nobody_shares_and_is_given_back_twice_shows_in_that_step(model):
    class GivesTheLastTwice(KVCacheManager):
        def free(self, request):
            self.req_to_blocks[request.request_id].append(self.req_to_blocks[request.request_id][-1])
            super().free(request)

    llm = LLM(model, record=True, **KNOBS, block_pool=Trusting, kv_cache_manager=GivesTheLastTwice)
    llm.generate("Hello you", SamplingParams(max_tokens=3, ignore_eos=True))
    finding, (freed,) = first_broken(llm.trace), [e for e in llm.trace.events if e.kind == "blocks_freed"]
    assert llm.trace.events[finding.event] is freed
    assert (finding.rule, finding.block_ids) == ("owners", freed.block_ids[:1])
    assert "ref_cnt -1" in str(finding)


def test_there_are_ten_and_each_has_its_report_and_a_sentence():
    assert len(FAULTS) == 10
    reports = [fault.report for fault in ALL.values()]
    assert len(set(reports)) == len(reports)
    for fault in ALL.values():
        repository, _, number = fault.report.partition("#")
        assert repository.count("/") == 1 and number.isdecimal() and fault.title and fault.what.endswith(".")


def test_ten_faults_break_at_least_eight_different_rules_first():
    assert len({fault.rule for fault in FAULTS.values()}) >= 8


@pytest.mark.parametrize("name", ALL)
def test_a_trace_can_be_replayed_saved_and_loaded_and_does_not_name_its_fault(name, model, tmp_path):
    trace = record(name, 1, model)
    replay(trace)
    again = load(save(trace, tmp_path / "run.jsonl.gz"))
    assert again.events == trace.events and first_broken(again) == first_broken(trace)
    assert not [event.source for event in trace.events if "hunt" in event.source]


def test_the_same_seed_gives_the_same_moves_and_another_one_others(model):
    def moves(trace):
        return [event for event in trace.events if event.kind in ("blocks_allocated", "blocks_freed", "slot_written")]

    for name in FAULTS:
        assert moves(record(name, 2, model)) == moves(record(name, 2, model))
    assert any(moves(record(name, 2, model)) != moves(record(name, 3, model)) for name in FAULTS)


def test_a_wrong_word_never_comes_before_the_broken_rule(model):
    spoken = 0
    for name in ALL:
        run = record(name, 0, model)
        word = first_wrong_word(run, honest(name, 0, model))
        spoken += word is not None
        assert word is None or word >= first_broken(run).step
    assert 0 < spoken < len(ALL)


@pytest.mark.parametrize("era", ["v1", "paper"])
def test_an_honest_engine_under_stress_breaks_no_rule(era, model):
    for seed in range(3):
        llm = LLM(model, record=True, era=era, **KNOBS)
        stress(llm, seed, num_requests=8)
        assert first_broken(llm.trace) is None
        assert llm.block_pool.get_num_free_blocks() == llm.num_blocks - (era == "v1")
