"""Tokens that end an answer: ``stop_token_ids``, with vLLM's meaning, in both eras."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from pagedlab.engine import LLM, SamplingParams
from pagedlab.engine.output import is_stop
from pagedlab.engine.request import Request
from pagedlab.errors import PagedlabError

GREEDY = SamplingParams(max_tokens=12, ignore_eos=True)


@pytest.mark.parametrize("era", ["v1", "paper"])
def test_a_stop_token_ends_an_answer_is_its_last_token_and_none_of_its_text(tiny, era):
    llm = LLM(tiny, num_gpu_blocks_override=64, block_size=4, era=era)
    full = llm.generate([5, 6, 7], GREEDY)[0].outputs[0]
    for i, token in enumerate(full.token_ids):
        params = dataclasses.replace(GREEDY, stop_token_ids=[258, token])
        cut = llm.generate([5, 6, 7], params)[0].outputs[0]
        first = full.token_ids.index(token)
        assert cut.token_ids == full.token_ids[: first + 1]
        assert cut.text == llm.tokenizer.decode(full.token_ids[:first])
        assert (cut.finish_reason, cut.stop_reason) == ("stop", token), i
    unseen = next(i for i in range(256) if i not in full.token_ids)
    kept = llm.generate([5, 6, 7], dataclasses.replace(GREEDY, stop_token_ids=[unseen]))[0].outputs[0]
    assert kept == full and (full.finish_reason, full.stop_reason) == ("length", None)
    assert llm.block_pool.get_num_free_blocks() == (63 if era == "v1" else 64)


def test_each_answer_to_a_prompt_stops_by_itself(tiny):
    for era in ("v1", "paper"):
        llm = LLM(tiny, num_gpu_blocks_override=64, block_size=4, era=era)
        params = SamplingParams(n=3, temperature=1.0, seed=3, max_tokens=12, ignore_eos=True)
        full = llm.generate([5, 6, 7], params)[0].outputs
        stop = full[0].token_ids[4]
        cut = llm.generate([5, 6, 7], dataclasses.replace(params, stop_token_ids=[stop]))[0].outputs
        for before, after in zip(full, cut, strict=True):
            end = before.token_ids.index(stop) + 1 if stop in before.token_ids else None
            assert after.token_ids == before.token_ids[:end]
            assert after.finish_reason == ("length" if end is None else "stop")


def reason_of(llm, token_ids, **params):
    """Why an answer of these tokens stops, and after how many of them."""
    request = Request("A", [1], SamplingParams(**params), block_size=4)
    for count, token_id in enumerate(token_ids, start=1):
        request.append_output_token(token_id)
        if is_stop(request, llm.tokenizer):
            return request.stop_reason, count
    return None


def test_what_is_named_as_the_reason(tiny, ends_at_a):
    """As in vLLM: the end of text is asked first and has no reason of its own, then the tokens, then the strings."""
    answer = b"12A45"
    assert reason_of(tiny, answer) == (None, 3)
    assert reason_of(tiny, answer, stop_token_ids=[ord("A")]) == (None, 3)
    assert reason_of(tiny, answer, stop_token_ids=[ord("A")], ignore_eos=True) == (ord("A"), 3)
    assert reason_of(tiny, answer, stop_token_ids=[ord("2")], stop="2") == (ord("2"), 2)
    assert reason_of(tiny, answer, stop=["5", "A4"], ignore_eos=True) == ("A4", 4)
    assert reason_of(tiny, answer, stop=["45", "5"], ignore_eos=True) == ("45", 5)  # complete at once: the first one
    assert reason_of(tiny, answer, stop="~", stop_token_ids=[ord("~")], ignore_eos=True) is None


def test_a_stop_token_ends_an_answer_that_has_its_length_too(tiny):
    llm = LLM(tiny, num_gpu_blocks_override=64, block_size=4)
    last = llm.generate([5, 6, 7], GREEDY)[0].outputs[0].token_ids[-1]
    params = dataclasses.replace(GREEDY, stop_token_ids=[last])
    first = llm.generate([5, 6, 7], params)[0].outputs[0].token_ids.index(last) + 1
    output = llm.generate([5, 6, 7], dataclasses.replace(params, max_tokens=first))[0].outputs[0]
    assert (output.finish_reason, output.stop_reason, len(output.token_ids)) == ("stop", last, first)


def test_stop_token_ids_become_plain_numbers_each_of_them_once():
    given = (np.int64(7), 3, torch.tensor(7), 3)
    params = SamplingParams(stop_token_ids=given)
    assert params.stop_token_ids == [7, 3] and {type(i) for i in params.stop_token_ids} == {int}
    assert SamplingParams().stop_token_ids == SamplingParams(stop_token_ids=[]).stop_token_ids == []
    assert SamplingParams(stop_token_ids={5}).stop_token_ids == [5]


def test_a_stop_token_beyond_the_vocabulary_is_refused_and_nothing_is_queued(tiny):
    llm = LLM(tiny, num_gpu_blocks_override=64, block_size=4, record=True)
    with pytest.raises(PagedlabError, match=r"stop_token_ids has 259.*0 to 258"):
        llm.add_request("ab", SamplingParams(stop_token_ids=[258, 259]))
    with pytest.raises(PagedlabError, match=r"stop_token_ids has 300"):
        llm.generate(["ab", "cd"], [SamplingParams(), SamplingParams(stop_token_ids=[300])])
    assert not llm.has_unfinished_requests() and not llm.trace.events
