"""Beam search: keep the few likeliest beginnings of an answer, and let each grow.

In every step each beam proposes its likeliest next tokens. Of all proposals of all beams the best ``beam_width`` go on.
A beam with two proposals among them forks; one with none dies, and its blocks are free. So beams share everything up to
where they parted, which is most of it; that is what makes this the best case for sharing blocks.

Source: vLLM ``entrypoints/generate/beam_search/offline.py``, ``BeamSearchOfflineMixin.beam_search``, for the rules; the
paper, section 4.4, for the memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pagedlab.engine.request import Request
from pagedlab.errors import PagedlabError, is_real, whole


@dataclass
class BeamSearchParams:
    """How to search, with vLLM's names. ``length_penalty``: an answer's score is its log probability divided by its
    number of tokens (the prompt's included) to this power. Raises PagedlabError for values that make no sense."""

    beam_width: int
    max_tokens: int
    ignore_eos: bool = False
    length_penalty: float = 1.0

    def __post_init__(self) -> None:
        for name in ("beam_width", "max_tokens"):
            setattr(self, name, whole(getattr(self, name), name, 1))
        if not is_real(self.length_penalty) or not -100 < self.length_penalty < 100:
            raise PagedlabError(f"length_penalty is {self.length_penalty!r}; it must be a number between -100 and 100.")

    @property
    def n(self) -> int:
        """How many sequences run at most."""
        return self.beam_width


@dataclass
class BeamSearchSequence:
    """One answer. ``tokens``: prompt and answer, as in vLLM; ``text``: of the answer alone."""

    tokens: list[int]
    cum_logprob: float
    text: str
    finish_reason: str | None


@dataclass
class BeamSearchOutput:
    """The answers to one prompt, the best first."""

    sequences: list[BeamSearchSequence]


class Proposal(NamedTuple):
    """``parent`` would go on with ``token_id``; ``cum_logprob``: of the whole answer then."""

    parent: Request
    token_id: int
    cum_logprob: float


class Hypothesis(NamedTuple):
    """An answer as it stands. ``token_ids``: without the prompt."""

    token_ids: list[int]
    cum_logprob: float
    finish_reason: str | None


@dataclass
class BeamSearch:
    """One prompt's search: how likely each beam is, and the answers that have come to their end."""

    params: BeamSearchParams
    eos_token_ids: frozenset[int]
    num_prompt_tokens: int
    cum_logprob: dict[str, float] = field(default_factory=dict)  # of the beams that live, by request id
    ended: list[Hypothesis] = field(default_factory=list)

    def advance(self, beams: Sequence[Request], logits: Sequence[Sequence[float]]) -> list[Proposal]:
        """The proposals that go on: at most ``beam_width``, the likeliest first. ``logits``: [beams, vocabulary].

        Proposals that end the text are put aside into :attr:`ended`. Each beam makes twice as many as could survive, so
        that an end of text takes nobody's place.
        """
        going_on = []
        for beam, row in zip(beams, logits, strict=True):
            so_far = self.cum_logprob.get(beam.request_id, 0.0)
            for token, value in likeliest(row, 2 * self.params.beam_width):
                if token in self.eos_token_ids and not self.params.ignore_eos:
                    self.ended.append(Hypothesis([*beam.output_token_ids, token], so_far + value, "stop"))
                else:
                    going_on.append(Proposal(beam, token, so_far + value))
        going_on.sort(key=lambda p: -p.cum_logprob)  # all of the same length, so no penalty decides here
        return going_on[: self.params.beam_width]

    def best(self, beams: Sequence[Request]) -> list[Hypothesis]:
        """The best ``beam_width`` answers, those that ended and those that still grow."""
        alive = [
            Hypothesis(b.output_token_ids, self.cum_logprob.get(b.request_id, 0.0), b.finish_reason) for b in beams
        ]
        return sorted(self.ended + alive, key=self._score, reverse=True)[: self.params.beam_width]

    def _score(self, answer: Hypothesis) -> float:
        num_tokens = self.num_prompt_tokens + len(answer.token_ids) - (answer.finish_reason == "stop")
        return answer.cum_logprob / max(num_tokens, 1) ** self.params.length_penalty


def likeliest(logits: Sequence[float], count: int) -> list[tuple[int, float]]:
    """(token id, log probability) of the ``count`` likeliest tokens, or of all where there are fewer, the best first;
    of equals the one with the lower id."""
    import numpy as np  # here, so that a scheduler alone starts at once

    row = np.asarray(logits, dtype=np.float64)
    count = min(count, len(row))
    chosen = np.sort(np.argpartition(-row, count - 1)[:count])
    chosen = chosen[np.argsort(-row[chosen], kind="stable")]
    largest = row.max()
    total = largest + np.log(np.exp(row - largest).sum())
    return list(zip(chosen.tolist(), (row[chosen] - total).tolist(), strict=True))
