"""A prompt in pieces, or whole: what a step's budget does to those who come and those who run."""

from __future__ import annotations

import pytest

from pagedlab.engine import LLM, SamplingParams
from pagedlab.errors import PagedlabError
from pagedlab.trace.invariants import first_broken

PARAMS = SamplingParams(max_tokens=6, ignore_eos=True)


def engine(**knobs):
    given = {"block_size": 4, "num_gpu_blocks_override": 64, "max_model_len": 40, "max_num_batched_tokens": 40}
    return LLM(device="counting", record=True, **given | knobs)


def shares(llm):
    """Tokens by request of each step, to the end."""
    made, schedule = [], llm.scheduler.schedule

    def watched():
        output = schedule()
        made.append(dict(output.num_scheduled_tokens))
        return output

    llm.scheduler.schedule = watched
    while llm.has_unfinished_requests():
        llm.step()
    assert first_broken(llm.trace) is None
    return made


@pytest.mark.parametrize("ahead", [False, True])
def test_without_chunks_a_prompt_waits_for_a_step_that_has_room_for_all_of_it_and_nobody_overtakes_it(ahead):
    llm = engine(enable_chunked_prefill=False, async_scheduling=ahead)
    for n in (5, 6, 33, 3):  # 5 + 6, then 33 beside two that decode would be 35; 33 + 11 is more than 40
        llm.add_request([7 + n] * n, PARAMS)
    first, second, *_ = shares(llm)
    assert first == {"A": 5, "B": 6} and second == {"A": 1, "B": 1, "C": 33, "D": 3}

    llm = engine(enable_chunked_prefill=False, async_scheduling=ahead)
    for n in (5, 39, 3):  # beside one that decodes 39 fit, and then there is no room for more
        llm.add_request([7 + n] * n, SamplingParams(max_tokens=3 if n == 5 else 1, ignore_eos=True))
    made = shares(llm)
    assert made[:3] == [{"A": 5}, {"A": 1, "B": 39}, {"A": 1, "C": 3}]

    llm = engine(enable_chunked_prefill=False, async_scheduling=ahead)
    for n in (5, 5, 39, 3):  # 39 beside two does not fit: it waits until one of them is done, and D behind it
        llm.add_request([7 + n] * n, SamplingParams(max_tokens=3, ignore_eos=True) if n < 39 else PARAMS)
    made = shares(llm)
    waited = next(i for i, one in enumerate(made) if "C" in one)
    assert made[waited]["C"] == 39 and waited >= 3
    assert not any("D" in one for one in made[:waited])


def test_with_chunks_it_takes_what_the_others_leave():
    llm = engine()
    for n in (5, 6, 34, 3):
        llm.add_request([7 + n] * n, PARAMS)
    first, second, third, *_ = shares(llm)
    assert first == {"A": 5, "B": 6, "C": 29} and second == {"A": 1, "B": 1, "C": 5, "D": 3}
    assert third == {"A": 1, "B": 1, "C": 1, "D": 1}


def test_found_tokens_do_not_count_against_the_budget():
    llm = engine(enable_chunked_prefill=False)
    llm.add_request([5] * 33, SamplingParams(max_tokens=4, ignore_eos=True))
    llm.step()
    for _ in range(2):
        llm.add_request([5] * 33, PARAMS)
    assert shares(llm)[0] == {"A": 1, "B": 1, "C": 1}


def test_answers_are_the_same_in_pieces_and_whole():
    prompts = [[(11 * i + 7 * j) % 250 for i in range(5 + 9 * j)] for j in range(4)]
    whole = engine(enable_chunked_prefill=False).generate(prompts, PARAMS)
    pieces = engine(max_num_batched_tokens=7).generate(prompts, PARAMS)
    assert [o.outputs[0].token_ids for o in whole] == [o.outputs[0].token_ids for o in pieces]


def test_a_budget_below_the_longest_request_is_refused_without_chunks_and_fine_with_them():
    assert engine(max_num_batched_tokens=1).generate([[1, 2, 3]], PARAMS)[0].finished
    with pytest.raises(PagedlabError, match="longest request: max_num_batched_tokens is 39, max_model_len 40"):
        engine(enable_chunked_prefill=False, max_num_batched_tokens=39)
    with pytest.raises(PagedlabError, match="enable_chunked_prefill is 1; it must be True or False"):
        engine(enable_chunked_prefill=1)
    with pytest.raises(PagedlabError, match="max_num_batched_tokens is 0"):
        engine(max_num_batched_tokens=0)
