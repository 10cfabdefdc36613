"""Exercise 15: its logs are vLLM's in their words and figures, and its reading of a trace is a count by hand."""

import json
import random
import re

import pytest

from pagedlab.explain import read_log
from pagedlab.explain.findings import MEMORY_TAKEN, NO_KV_MEMORY, OUT_OF_MEMORY, POOL_TOO_SMALL
from pagedlab.explain.shipped import shipped_log
from pagedlab.grading.exercises.ex15 import at_once, memory, mend, moment
from pagedlab.grading.exercises.ex15.logs import Log, drawn, last_start, real
from pagedlab.grading.grade import grade

KINDS = {"card taken": MEMORY_TAKEN, "pool too small": POOL_TOO_SMALL, "no room": NO_KV_MEMORY,
         "out of memory": OUT_OF_MEMORY}  # fmt: skip


def read(log):
    return read_log(log.splitlines(keepends=True))


@pytest.mark.parametrize("seed", range(6))
def test_a_made_up_start_reads_as_a_real_one_does_and_its_figures_agree(seed):
    rng = random.Random(seed)
    start = drawn(rng)
    f = read(Log().started(start, rng).text)
    assert (f.total_gib, f.free_at_start_gib, f.utilization) == (start.total, start.free, start.utilization)
    assert (f.consumed_gib, f.activation_gib, f.kv_cache_gib) == (start.consumed, start.activation, start.pool)
    assert f.kv_cache_tokens == start.tokens
    assert (f.max_model_len, f.max_num_seqs) == (start.max_model_len, start.max_num_seqs)
    assert abs(f.max_concurrency - f.kv_cache_tokens / f.max_model_len) < 0.006
    assert abs(f.budget_gib - f.consumed_gib - f.activation_gib - f.kv_cache_gib) < 0.011


def shape(text):
    """A line's words, without its numbers."""
    return re.sub(r"[\d.,]*\d", "#", text[text.index("] ") + 2 :])


@pytest.mark.parametrize("words", ["Available KV cache memory", "GPU KV cache size"])
def test_the_words_are_those_of_a_real_log(words):
    rng = random.Random(1)
    [ours] = [line for line in Log().started(drawn(rng), rng).lines if words in line]
    [theirs] = [line for line in real("a100-031-start").splitlines() if words in line]
    assert shape(ours) == shape(theirs)


@pytest.mark.parametrize("case", mend._cases(random.Random(3), 47))
def test_each_failure_is_what_pagedlab_explain_reads_in_it(case):
    expected, f = mend.right(case["log"]), read(last_start(case["log"]))
    assert (f.failure.kind if f.failure else None) == (expected and KINDS[expected[0]])


@pytest.mark.parametrize("case", memory._cases(random.Random(3), 47))
def test_the_pool_is_what_pagedlab_explain_reads(case):
    f, expected = read(last_start(case["log"])), memory.right(case["log"])
    assert (f.kv_cache_gib, f.kv_cache_tokens) == (expected["pool"], expected["blocks"] * (f.block_size or 16))


def test_what_decides_is_always_among_the_cases():
    ties = [at_once.right(case) for case in at_once._cases(random.Random(3), 47)]
    assert {limit for _, limit in ties} == {"pool", "max_num_seqs", "max_model_len"}
    kinds = [mend.right(case["log"]) for case in mend._cases(random.Random(3), 47)]
    assert {kind and kind[0] for kind in kinds} == {None, *KINDS}
    runs = ["\n".join(case["lines"]) for case in moment._cases(random.Random(3), 47)]
    for word in ("prefix_cache_reset", "request_preempted", "block_evicted", "block_touched"):
        assert any(word in run for run in runs), word


def test_no_real_log_hands_its_reading_to_the_learner():
    for name in ("a100-031-start", "gpu47-091-memory-taken"):
        assert "# reading" in shipped_log(name).read_text() and "#" not in real(name).split("\n")[0]


def test_the_same_draw_gives_the_same_cases():
    one, two = (moment._cases(random.Random(5), 47) for _ in range(2))
    assert one == two and all(json.loads(case["lines"][0])["config"] for case in one)


BORROWED = {
    "15.1": """
from pagedlab.explain import read_log
def memory(log):
    f = read_log(log[log.rfind("non-default args") :].splitlines(keepends=True))
    return {"others": f.total_gib - f.free_at_start_gib, "engine": f.consumed_gib + f.activation_gib,
            "pool": f.kv_cache_gib, "blocks": f.kv_cache_tokens // (f.block_size or 16)}""",
    "15.3": """
import pagedlab.explain.failures as theirs
def mend(log):
    found = theirs.failure(log)
    return None if found is None else ("no room", "gpu_memory_utilization", "higher")""",
    "15.4": """
from pagedlab.trace import MemoryState
from pagedlab.trace.events import from_dict
def moment(lines, step):
    header, *events = map(json.loads, lines)
    state = MemoryState.of(header["config"])
    for event in map(from_dict, events):
        state.apply(event)
    return {"in_use": sum(n > 0 for n in state.ref_cnt), "cached": len(state.cached), "found": 0, "asked": 1}""",
}


@pytest.mark.slow
def test_the_packages_own_readers_answer_no_part(submission):
    answers = {name: f"# part {name}{code}" for name, code in BORROWED.items()}
    for check in grade(submission(answers, number="15"), with_nbval=False).checks:
        assert (check.earned == 0) == (check.name in BORROWED), check
        assert check.name not in BORROWED or "your own code" in check.reason, check
