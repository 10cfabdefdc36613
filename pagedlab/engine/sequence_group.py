"""A prompt and everything that answers it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pagedlab.engine.request import Request


@dataclass
class SequenceGroup:
    """A prompt and the requests that answer it.

    In V1 the scheduler sees ``n`` separate requests, and only the engine remembers that they belong together. In the
    paper's era the group is what is scheduled: its sequences fork from the first one, share blocks, and run, make room
    and come back together.

    ``children``: all sequences so far, in order of creation (of a beam search only those that still live).
    ``width``: how many there will be. ``seed``: the first one's; those of its forks follow from it. ``beam``: the state
    of a beam search, or None.

    Source: vLLM v0.2.0 ``sequence.py``, class ``SequenceGroup``.
    """

    request_id: str
    prompt: str | None
    prompt_token_ids: list[int]
    children: list[Request] = field(default_factory=list)
    width: int = 1
    seed: int = 0
    num_forks: int = 0
    beam: Any = None

    def get_seqs(self) -> list[Request]:
        """The unfinished ones, in order of creation."""
        return [request for request in self.children if request.status != "finished"]

    @property
    def finished(self) -> bool:
        return not self.get_seqs()
