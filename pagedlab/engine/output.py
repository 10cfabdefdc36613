"""From tokens back to text: when an answer stops, and what has become of a prompt so far."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
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


class _Answer(CompletionOutput):
    """Its text is made when somebody reads it: a step need not decode all answers from their beginning."""

    def __init__(self, index: int, text: Callable[[], str], token_ids: list[int], *how: Any) -> None:
        super().__init__(index, "", token_ids, *how)
        del self.text
        self._text = text

    def __getattr__(self, name: str) -> str:
        if name != "text":
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        self.text = self._text()
        return self.text

    def __reduce__(self) -> tuple[type[_Answer], tuple[Any, ...]]:
        """Copied with its text, not with a tokenizer."""
        how = (self.finish_reason, self.cumulative_logprob, self.stop_reason)
        return _Answer, (self.index, partial(str, self.text), self.token_ids, *how)


def _answer(index: int, request: Request, tokenizer: Any) -> CompletionOutput:
    token_ids, stop_at = request.output_token_ids, request.stop_at
    ended = request.finish_reason == "stop" and stop_at is None
    text = partial(_text, tuple(token_ids), ended, tokenizer, stop_at)  # as it is now, whatever becomes of the list
    return _Answer(index, text, token_ids, request.finish_reason, None, request.stop_reason)


def _beams(group: SequenceGroup, tokenizer: Any) -> list[CompletionOutput]:
    answers = []
    for index, answer in enumerate(group.beam.best(group.children)):
        text = _text(answer.token_ids, answer.finish_reason == "stop", tokenizer)
        # Until the search is over, even an answer that has come to its end may still be outdone.
        reason = answer.finish_reason if group.finished else None
        answers.append(CompletionOutput(index, text, answer.token_ids, reason, answer.cum_logprob))
    return answers


def _text(token_ids: Sequence[int], ended: bool, tokenizer: Any, stop_at: int | None = None) -> str:
    """An answer's text, up to ``stop_at``. ``ended``: its last token is the end of text or a stop token, which is none
    of it; one that was ignored shows as any other token, and special tokens never do."""
    return tokenizer.decode(list(token_ids[:-1] if ended else token_ids))[:stop_at]
