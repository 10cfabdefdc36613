"""One request: its tokens, how far they are computed, and how its life goes."""

from __future__ import annotations

import copy
import operator
from dataclasses import dataclass, field

from pagedlab.errors import PagedlabError, is_real, is_whole, whole
from pagedlab.kv.prefix import NO_SALT, extend_block_hashes, first_parent


@dataclass
class SamplingParams:
    """How to choose tokens, with vLLM's names. ``temperature`` 0 is greedy; ``top_k`` 0 and ``top_p`` 1 switch these
    off.

    ``seed``: None takes the engine's seed plus the request's number; of ``n`` answers each has draws of its own.
    ``stop``: the text ends before the first of these strings. ``stop_token_ids``: so do these tokens end it; like an
    end of text such a token is the last of the answer's ``token_ids``, and no part of its text. ``ignore_eos``: the end
    of text is a token like any other (among ``stop_token_ids`` it ends the answer all the same). ``n``: how many
    answers; they become n requests that share the prompt's full blocks (in the paper's era: n sequences that fork from
    one prefill). Raises PagedlabError for values that make no sense.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int | None = None
    n: int = 1
    max_tokens: int = 16
    stop: str | list[str] = field(default_factory=list)
    ignore_eos: bool = False
    stop_token_ids: list[int] | None = None  # a list from then on, each id once

    def __post_init__(self) -> None:
        if not isinstance(self.stop, (str, list, tuple)):
            raise PagedlabError(f"stop is {self.stop!r}; it must be a string or a list of strings.")
        self.stop = [self.stop] if isinstance(self.stop, str) else list(self.stop)
        for name, least in (("max_tokens", 1), ("n", 1), ("top_k", 0)):
            setattr(self, name, whole(getattr(self, name), name, least))
        for name in ("temperature", "top_p"):
            if not is_real(getattr(self, name)):
                raise PagedlabError(f"{name} is {getattr(self, name)!r}; it must be a number.")
        if not 0 <= self.temperature < float("inf"):
            raise PagedlabError(f"temperature is {self.temperature}; it must be 0 (greedy) or more.")
        if not 0 < self.top_p <= 1:
            raise PagedlabError(f"top_p is {self.top_p}; it must be above 0 and at most 1.")
        if self.seed is not None and not is_whole(self.seed):
            raise PagedlabError(f"seed is {self.seed!r}; it must be a whole number or None.")
        self.seed = None if self.seed is None else int(self.seed)
        if not all(isinstance(s, str) and s for s in self.stop):
            raise PagedlabError(f"stop is {self.stop!r}; it must hold strings that are not empty.")
        given = [] if self.stop_token_ids is None else self.stop_token_ids
        if not isinstance(given, (list, tuple, set, frozenset)) or not all(is_whole(i) and i >= 0 for i in given):
            raise PagedlabError(
                f"stop_token_ids is {given!r}; it must be a list of token ids, whole numbers of at least 0."
            )
        self.stop_token_ids = list(dict.fromkeys(map(operator.index, given)))


class Request:
    """A request as scheduler and manager see it.

    ``all_token_ids``: prompt and output. ``num_computed_tokens``: how many of them have their K and V in memory; the
    rest is what the scheduler still has to schedule: a prompt at first, one sampled token later. There is no other
    difference between prefill and decode. ``block_hashes``: of the full blocks, empty without prefix caching.

    Source: vLLM ``v1/request.py``.
    """

    def __init__(
        self,
        request_id: str,
        prompt_token_ids: list[int],
        sampling_params: SamplingParams,
        *,
        block_size: int,
        enable_caching: bool = True,
        salt: str = "",
        seed: int = 0,
    ) -> None:
        self.request_id = request_id
        self.seed = seed  # of its draws, together with the position
        self.sampling_params = sampling_params
        self.all_token_ids = list(prompt_token_ids)
        self.num_prompt_tokens = len(prompt_token_ids)
        self.num_computed_tokens = 0
        # One step ahead (async_scheduler.py): tokens that are being sampled; scheduled ones whose step is not taken in
        # yet; and those of them that were under way when the request was preempted.
        self.num_output_placeholders = self.num_in_flight_tokens = self.num_stale_output_tokens = 0
        self.status = "waiting"  # waiting, running, preempted, swapped or finished
        self.finish_reason: str | None = None
        self.num_cached_tokens = 0  # found in the prefix cache at the first admission
        self.num_preemptions = 0
        self.stop_at: int | None = None  # where a stop string cut the text
        self.stop_reason: int | str | None = None  # which of stop_token_ids or stop ended it
        self.block_hashes: list[bytes] = []
        self._block_size = block_size if enable_caching else 0
        self._first_parent = first_parent(salt) if salt else NO_SALT
        self._hash()

    @property
    def num_tokens(self) -> int:
        return len(self.all_token_ids)

    @property
    def output_token_ids(self) -> list[int]:
        return self.all_token_ids[self.num_prompt_tokens :]

    def append_output_token(self, token_id: int) -> None:
        self.all_token_ids.append(token_id)
        self._hash()

    def fork(self, request_id: str, seed: int) -> Request:
        """A second request that has come exactly as far as this one, and goes on by itself (the paper's era)."""
        child = copy.copy(self)
        child.request_id, child.seed, child.num_preemptions = request_id, seed, 0
        child.all_token_ids, child.block_hashes = list(self.all_token_ids), list(self.block_hashes)
        return child

    def _hash(self) -> None:
        if self._block_size and len(self.all_token_ids) >= (len(self.block_hashes) + 1) * self._block_size:
            extend_block_hashes(self.block_hashes, self.all_token_ids, self._block_size, self._first_parent)


@dataclass
class CompletionOutput:
    """One answer. ``finish_reason``: "stop" (end of text, a stop token or a stop string), "length", "abort", None while
    running. ``cumulative_logprob``: the log of the answer's probability, where a beam search computed it.
    ``stop_reason``: which of ``stop_token_ids`` or of ``stop`` ended it; None for an end of text, and for any other."""

    index: int
    text: str
    token_ids: list[int]
    finish_reason: str | None
    cumulative_logprob: float | None = None
    stop_reason: int | str | None = None


@dataclass
class RequestOutput:
    """What became of a prompt. ``outputs`` holds ``n`` answers."""

    request_id: str
    prompt: str | None
    prompt_token_ids: list[int]
    outputs: list[CompletionOutput]
    num_cached_tokens: int

    @property
    def finished(self) -> bool:
        return all(output.finish_reason is not None for output in self.outputs)
