"""From tokens back to text: when an answer stops, and what has become of a prompt so far."""

from __future__ import annotations

from typing import Any

from pagedlab.engine.request import CompletionOutput, Request, RequestOutput
from pagedlab.engine.sequence_group import SequenceGroup

HALF = "\ufffd"  # how bytes that are no whole character (yet) are decoded


def is_stop(request: Request, tokenizer: Any) -> bool:
    """End of text, a stop token, or a stop string in the output so far (the text will end before it).

    In this order, which decides what is named as the reason, and before the length is looked at.

    Source: vLLM ``v1/core/sched/utils.py``, ``check_stop``; ``v1/engine/detokenizer.py``, ``check_stop_strings``.
    """
    params, last = request.sampling_params, request.all_token_ids[-1]
    if not params.ignore_eos and last in tokenizer.eos_token_ids:
        return True
    if last in params.stop_token_ids:
        request.stop_reason = last
        return True
    if params.stop:
        text = tokenizer.decode(request.output_token_ids)
        whole = text.rstrip(HALF)  # what may still become another character is not searched
        places = [(whole.find(s), s) for s in params.stop]
        complete = [(place + len(s), place, s) for place, s in places if place >= 0]
        if complete:  # one token may complete several: the one that was complete first counts
            _, request.stop_at, request.stop_reason = min(complete, key=lambda found: found[0])
            return True
    return False


def output_of(group: SequenceGroup, tokenizer: Any) -> RequestOutput:
    """The answers to a prompt as they stand: of a beam search the best ones, in that order."""
    if group.beam:
        answers, num_cached = _beams(group, tokenizer), 0
    else:
        answers = [_answer(index, request, tokenizer) for index, request in enumerate(group.children)]
        num_cached = group.children[0].num_cached_tokens
    return RequestOutput(group.request_id, group.prompt, group.prompt_token_ids, answers, num_cached)


def _answer(index: int, request: Request, tokenizer: Any) -> CompletionOutput:
    token_ids = request.output_token_ids
    ended = request.finish_reason == "stop" and request.stop_at is None
    text = _text(token_ids, ended, tokenizer)[: request.stop_at]
    return CompletionOutput(index, text, token_ids, request.finish_reason, stop_reason=request.stop_reason)


def _beams(group: SequenceGroup, tokenizer: Any) -> list[CompletionOutput]:
    answers = []
    for index, answer in enumerate(group.beam.best(group.children)):
        text = _text(answer.token_ids, answer.finish_reason == "stop", tokenizer)
        # Until the search is over, even an answer that has come to its end may still be outdone.
        reason = answer.finish_reason if group.finished else None
        answers.append(CompletionOutput(index, text, answer.token_ids, reason, answer.cum_logprob))
    return answers


def _text(token_ids: list[int], ended: bool, tokenizer: Any) -> str:
    """An answer's text. ``ended``: its last token is the end of text or a stop token, which is none of it; one that was
    ignored shows as any other token, and special tokens never do."""
    return tokenizer.decode(token_ids[:-1] if ended else token_ids)
