"""The overload that the preemption lab, chapter 08 and exercise 08 run, and what is read from it."""

import pytest

from pagedlab.bench.preemption import longest_pause, overload, run_out, work_done
from pagedlab.engine import LLM
from pagedlab.errors import PagedlabError

PROMPTS = [[(7 * i + 3 * j) % 200 + 1 for j in range(n)] for i, n in enumerate((12, 14, 10, 11, 8))]


@pytest.fixture(scope="module")
def tiny():
    return LLM("tiny-random", num_gpu_blocks_override=2)


def answers(llm):
    said = {}
    for e in llm.trace.events:
        if e.kind == "token_sampled":
            said.setdefault(e.request_id, []).append(e.token_id)
    return said


def test_both_eras_get_the_same_requests_and_as_many_blocks_to_hand_out(tiny):
    recompute, swap = overload(tiny, "recompute", PROMPTS), overload(tiny, "swap", PROMPTS)
    assert [llm.step_count for llm in (recompute, swap)] == [0, 0]
    assert [llm.block_pool.get_num_free_blocks() for llm in (recompute, swap)] == [18, 18]
    assert list(recompute.requests) == list(swap.requests) == list("ABCDE")


def test_everybody_gets_the_same_answer_whoever_had_to_make_room(tiny):
    large = run_out(overload(tiny, "recompute", PROMPTS, num_blocks=60))
    assert work_done(large)["preemptions"] == 0 and longest_pause(large) == 1
    for how, again, found in (("recompute", 34, 12), ("swap", 0, 0)):
        llm = run_out(overload(tiny, how, PROMPTS))
        done = work_done(llm)
        assert answers(llm) == answers(large)
        assert (done["preemptions"], done["recomputed_tokens"], done["found_tokens"]) == (3, again, found)
        assert (done["swapped_bytes"] > 0) == (how == "swap")
        assert longest_pause(llm) == {"recompute": 14, "swap": 15}[how]  # E, until step 17


def test_without_a_prefix_cache_all_of_a_victim_is_computed_again(tiny):
    done = work_done(run_out(overload(tiny, "recompute", PROMPTS, enable_prefix_caching=False)))
    assert (done["recomputed_tokens"], done["found_tokens"]) == (34 + 12, 0)


def test_a_request_that_could_never_run_is_refused(tiny):
    with pytest.raises(PagedlabError, match="too small"):
        overload(tiny, "recompute", [[1] * 90])
