"""The rules that memory keeps: held in every honest run, and broken by an edit that is then named."""

from pagedlab.engine import LLM, SamplingParams
from pagedlab.trace import MemoryState
from pagedlab.trace.invariants import broken


def params(max_tokens, **more):
    return SamplingParams(max_tokens=max_tokens, ignore_eos=True, **more)


def states_of(llm):
    """The state after each step."""
    state = MemoryState.of(llm.trace.header["config"])
    seen = 0
    while True:
        for event in llm.trace.events[seen:]:
            state.apply(event)
        seen = len(llm.trace.events)
        yield state
        if not llm.has_unfinished_requests():
            return
        llm.step()


def test_an_honest_run_keeps_every_rule_after_every_step():
    tight = LLM("tiny-random", record=True, block_size=4, num_gpu_blocks_override=9, max_num_batched_tokens=16)
    for prompt in ("Hello you there", "Hello you", "abc"):
        tight.add_request(prompt, params(9))
    paper = LLM(tight, record=True, era="paper", block_size=4, num_gpu_blocks_override=16, preemption="swap")
    for prompt in ("Hi there you al", "Hello to you tw"):
        paper.add_request(prompt, params(16, n=2, temperature=1.0))
    for llm in (tight, paper):
        for state in states_of(llm):
            assert broken(state) == []
        assert {"request_preempted"} <= {e.kind for e in llm.trace.events}


def test_an_edit_is_found_out():
    llm = LLM("tiny-random", record=True, block_size=4, num_gpu_blocks_override=12)
    llm.add_request("Hello you", params(4))
    llm.add_request("abcdefgh", params(4))
    llm.step()
    table = list(llm.tables["A"].block_ids)
    llm.remap("A", 0, llm.tables["B"].block_ids[0])
    state = next(states_of(llm))
    sentences = " ".join(broken(state))
    assert f"#{table[0]} has ref_cnt 1, but 0 table entries" in sentences
    assert "A reads 4 tokens" in sentences and "B wrote there" in sentences
    llm.remap("A", 0, 0)
    state = MemoryState.of(llm.trace.header["config"])
    for event in llm.trace.events:
        state.apply(event)
    assert any("null block" in line for line in broken(state))


def test_faults_over_several_groups_of_layers_are_named():
    """Each group's tables are looked at, and the null block may stand only where a window has passed."""
    llm = LLM("tiny-random-hybrid", device="cpu", record=True, block_size=4, num_gpu_blocks_override=40)
    llm.add_request("The window moves on", params(12))
    *_, state = states_of(llm)
    assert broken(state) == []

    def faults(change):
        llm = LLM("tiny-random-hybrid", device="cpu", record=True, block_size=4, num_gpu_blocks_override=40)
        llm.add_request("The window moves on", params(12))
        for step, state in enumerate(states_of(llm)):
            if step == 6:
                change(state.group_tables[0]["A"], state.group_tables[1]["A"], state)
                return " ".join(broken(state))

    assert faults(lambda full, window, state: None) == ""
    assert "null block, and A reads it" in faults(lambda full, window, state: window.__setitem__(-1, 0))
    assert "null block, and A reads it" in faults(lambda full, window, state: full.__setitem__(0, 0))
    assert "2 table entries point at it" in faults(lambda full, window, state: window.__setitem__(-1, full[-1]))
    assert "A reads 1 token in" in faults(lambda full, window, state: state.slots[window[-1]].__setitem__(0, None))
    assert "is free, and A still reads it" in faults(lambda full, window, state: state.free.append(window[-1]))
