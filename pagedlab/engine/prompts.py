"""What is given as a prompt, and what a request is called."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any

from pagedlab.errors import PagedlabError, is_whole

Prompt = str | Sequence[int]


def encode(prompt: Prompt, tokenizer: Any, vocab_size: int) -> list[int]:
    """Token ids as plain numbers. Raises PagedlabError for what is no prompt, and for ids beyond the vocabulary."""
    if isinstance(prompt, str):
        if not is_text(prompt):
            raise PagedlabError("The prompt holds half a character (a lone surrogate); it must be Unicode text.")
        given = tokenizer.encode(prompt)
    else:
        given = listed(prompt)
    ids = []
    for i in given:
        if not is_whole(i) or not 0 <= i < vocab_size:
            raise PagedlabError(f"Token id {i!r} is not in the vocabulary; allowed are 0 to {vocab_size - 1}.")
        ids.append(operator.index(i))  # numpy's and torch's whole numbers become plain ones
    return ids


def several(prompts: Prompt | Sequence[Prompt]) -> list[Prompt]:
    """One prompt or several as a list of prompts."""
    prompts = [prompts] if isinstance(prompts, (str, bytes)) else listed(prompts)
    return [prompts] if prompts and hasattr(prompts[0], "__index__") else prompts  # token ids: it is one prompt


def listed(prompt: Any) -> list:
    """A prompt's token ids, or several prompts, as a list. Raises PagedlabError for what is neither."""
    try:
        if isinstance(prompt, (bytes, dict, set)):
            raise TypeError
        return list(prompt)
    except TypeError:
        raise PagedlabError(
            f"A prompt is text or a list of token ids, and several are a list of such; not {type(prompt).__name__}."
        ) from None


def check_text(**values: Any) -> None:
    """Raises PagedlabError for a value that is given and is no text."""
    for name, value in values.items():
        if value is not None and not is_text(value):
            raise PagedlabError(f"{name} is {value!r}; it must be a string.")


def is_text(value: Any) -> bool:
    """A string without lone surrogates: one that can be hashed, and written to a file."""
    try:
        return isinstance(value, str) and value.encode() is not None
    except UnicodeEncodeError:
        return False


def name_for(request_id: str | None, number: int, taken: Iterable[str]) -> str:
    """``request_id``, or else the first of A, B, … Z, AA, … from the one of that ``number`` on that clashes with none
    of ``taken``. Raises PagedlabError for a ``request_id`` that clashes."""
    if request_id is None:
        while clash(letters(number), taken) is not None:
            number += 1
        return letters(number)
    other = clash(request_id, taken)
    if other is not None:
        raise PagedlabError(
            f"There is already an unfinished request {other!r}, and {request_id!r} is its name or that of one of "
            "its answers; give another request_id."
        )
    return request_id


def letters(number: int) -> str:
    """0, 1, … as A, B, … Z, AA, AB, …: names short enough to stand on a block."""
    name = ""
    number += 1
    while number:
        number, letter = divmod(number - 1, 26)
        name = chr(ord("A") + letter) + name
    return name


def clash(request_id: str, taken: Iterable[str]) -> str | None:
    """Which of ``taken`` has this name, or has answers that may come to have it ("A/0"), or the other way round."""
    for other in taken:
        if request_id == other or _names_answer(request_id, other) or _names_answer(other, request_id):
            return other
    return None


def _names_answer(name: str, request_id: str) -> bool:
    """Could ``name`` be that of one of the answers ("A/0", "A/1", …) to ``request_id``?"""
    return name.startswith(f"{request_id}/") and name[len(request_id) + 1 :].isdecimal()
