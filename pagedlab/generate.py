"""A prompt in, answers out, as text that grows: what `pagedlab generate` prints."""

from __future__ import annotations

from collections.abc import Iterator

from pagedlab.engine import LLM, RequestOutput, SamplingParams

UNFINISHED_CHARACTER = "\ufffd"  # what decoding shows where a character's last bytes are still to come


def answers(llm: LLM, prompt: str | list[int], params: SamplingParams) -> Iterator[RequestOutput]:
    """The output after each step that brought a token; the last one is finished.

    Raises PagedlabError at the first step for a prompt that cannot run.
    """
    request_id = llm.add_request(prompt, params)
    while llm.has_unfinished_requests():
        yield from (output for output in llm.step() if output.request_id == request_id)


def pieces(outputs: Iterator[RequestOutput], stop: list[str]) -> Iterator[str]:
    """The first answer of each output as pieces to be printed one after the other; together they are its whole text.

    Held back until it is known what becomes of them: the bytes of a character that is not complete, and an end that may
    be the beginning of a stop string.
    """
    printed = 0
    for output in outputs:
        text = output.outputs[0].text
        end = len(text) if output.finished else _settled(text, stop)
        if end > printed:
            yield text[printed:end]
            printed = end


def _settled(text: str, stop: list[str]) -> int:
    """How much of ``text`` no later token can change or cut."""
    end = len(text.rstrip(UNFINISHED_CHARACTER))
    begun = [n for s in stop for n in range(1, len(s)) if text[:end].endswith(s[:n])]
    return end - max(begun, default=0)
