"""One long prompt beside requests that decode: the run is the one that is described, and what is stored is of it."""

import pytest

from pagedlab.bench.budget import BUDGETS, NEWCOMER, NUM_DECODING, measure, medians, serve, stored
from pagedlab.engine import LLM
from pagedlab.errors import PagedlabError


@pytest.fixture(scope="module")
def tiny():
    return LLM("tiny-random", num_gpu_blocks_override=2)


@pytest.mark.parametrize("budget", [16, 64, 8192])
def test_each_decoding_request_gets_a_token_in_each_step_and_the_newcomer_what_they_leave(tiny, budget):
    newcomer = [*range(5, 155)]
    llm, served = serve(tiny, budget, newcomer=newcomer)
    most = budget - NUM_DECODING
    full, rest = divmod(len(newcomer), most)
    assert served.chunks == [most] * full + [rest] * bool(rest)
    assert len(served.steps) == len(served.chunks) and served.first_token == sum(served.steps)
    ends, decided = llm.trace.step_ends(), llm.trace.events
    for first, last in zip(ends[-len(served.steps) - 1 : -1], ends[-len(served.steps) :], strict=True):
        sampled = {e.request_id for e in decided[first:last] if e.kind == "token_sampled"}
        assert len(sampled) >= NUM_DECODING
    assert not any(e.kind in ("request_finished", "request_preempted") for e in decided)


def test_without_chunks_the_prompt_is_one_step(tiny):
    _, served = serve(tiny, 400, newcomer=[*range(5, 155)], chunked=False)
    assert served.chunks == [150]


def test_what_is_stored_is_a_run_of_all_budgets_with_steps_that_follow_from_them():
    result = stored()
    assert [int(budget) for budget in result["budgets"]] == list(BUDGETS)
    assert (result["decoding"], result["newcomer_tokens"]) == (NUM_DECODING, NEWCOMER)
    for budget, one in medians(result).items():
        assert one["steps"] == -(-NEWCOMER // (budget - NUM_DECODING))
        assert one["median_gap_seconds"] <= one["longest_gap_seconds"] <= one["first_token_seconds"]
    assert all(len(rounds) == result["rounds"] for rounds in result["budgets"].values())


def test_what_makes_no_sense_is_refused_before_anything_is_measured():
    for wrong in ({"rounds": 0}, {"budgets": ()}, {"budgets": (NUM_DECODING,)}):
        with pytest.raises(PagedlabError, match="give at least one round, and budgets above 6"):
            measure("tiny-random", **wrong)
    with pytest.raises(PagedlabError, match="tokens at most; this needs 1208"):
        measure("tiny-random")
