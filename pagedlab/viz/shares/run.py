"""What each step of a run was made of: how many tokens of whom, and, one step ahead, what was not known when it was
planned."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pagedlab.trace import MemoryState, Trace
from pagedlab.trace import events as ev
from pagedlab.viz.kit.history import History
from pagedlab.viz.walk import walk


@dataclass
class Share:
    """``num_tokens`` of a request in a step, from its position ``start`` on. ``is_awaited``: its last token was still
    being sampled when this was planned. ``blocks``: what its table got for it."""

    start: int
    num_tokens: int = 0
    is_prompt: bool = False
    is_awaited: bool = False
    blocks: tuple[int, ...] = ()


@dataclass
class Step:
    """One call of the engine's ``step()``. ``shares``: the plan that was made in it, by request, in scheduling order.
    ``sampled``: the tokens that came in it (of this plan; one step ahead, of the plan before), as text.
    ``finished``: why."""

    number: int = 0
    shares: dict[str, Share] = field(default_factory=dict)
    sampled: dict[str, str] = field(default_factory=dict)
    finished: dict[str, str] = field(default_factory=dict)
    preempted: list[str] = field(default_factory=list)
    admitted: dict[str, int] = field(default_factory=dict)  # with the tokens found
    returned: int = 0  # blocks given back

    @property
    def num_tokens(self) -> int:
        return sum(share.num_tokens for share in self.shares.values())

    @property
    def num_prompt_tokens(self) -> int:
        return sum(share.num_tokens for share in self.shares.values() if share.is_prompt)


def is_one_step_ahead(header: dict[str, Any]) -> bool:
    """Of our own engine the knob says so, of a watched vLLM the header."""
    return bool(header["config"].get("async_scheduling") or header.get("async_scheduling"))


class ShareHistory(History):
    """``steps``: those read so far, the first at 0."""

    def __init__(self, trace: Trace) -> None:
        self.ahead = is_one_step_ahead(trace.header)
        super().__init__(trace)

    def _restart(self) -> None:
        super()._restart()
        self.steps: list[Step] = []
        self._now = Step()
        self._positions: set[tuple[str, int]] = set()  # of the tokens that came in this step
        self._allocated: dict[str, tuple[int, ...]] = {}

    @property
    def largest(self) -> int:
        """Tokens of the largest step so far."""
        return max((step.num_tokens for step in self.steps), default=0)

    def _read(self, event: ev.Event) -> None:
        super()._read(event)
        now = self._now
        match event:
            case ev.TokenSampled():
                now.sampled[event.request_id] = event.text
                self._positions.add((event.request_id, event.position))
            case ev.RequestAdmitted():
                now.admitted[event.request_id] = event.num_computed_tokens
            case ev.RequestPreempted():
                now.preempted.append(event.request_id)
            case ev.BlocksAllocated():
                before = self._allocated.get(event.request_id, ())
                self._allocated[event.request_id] = before + event.block_ids
            case ev.SlotWritten():
                self._written(event)
            case ev.BlocksFreed():
                now.returned += len(event.block_ids)
            case ev.RequestFinished():
                now.finished[event.request_id] = event.reason
            case ev.StepEnded():
                now.number = self.num_steps
                for request_id, share in now.shares.items():
                    share.blocks = self._allocated.get(request_id, ())
                self.steps.append(now)
                self._now, self._positions, self._allocated = Step(), set(), {}

    def _written(self, event: ev.SlotWritten) -> None:
        share = self._now.shares.setdefault(event.request_id, Share(event.position))
        share.num_tokens += 1
        share.is_prompt |= event.position < self.state.requests[event.request_id].num_prompt_tokens
        share.is_awaited = self.ahead and (event.request_id, event.position) in self._positions


def to_compute(state: MemoryState, request_id: str, ahead: bool) -> int:
    """How many tokens of an unfinished request the next step may compute: those that it holds and that are not in
    memory. One step ahead also the token that is being sampled, unless it is the request's last."""
    request = state.requests[request_id]
    left = request.num_tokens - request.num_computed_tokens
    if request.status != "running":
        return left - found(state, request_id)
    if ahead and left == 0:
        return int(request.num_tokens + 1 < request.num_prompt_tokens + request.max_tokens)
    return left


def is_placeholder(state: MemoryState, request_id: str, ahead: bool) -> bool:
    """Is the only token that it has to compute still being sampled?"""
    request = state.requests[request_id]
    is_last = request.num_tokens == request.num_computed_tokens
    return ahead and request.status == "running" and is_last and to_compute(state, request_id, ahead) == 1


def found(state: MemoryState, request_id: str) -> int:
    """Tokens of one that waits which it would find in memory now."""
    request = state.requests[request_id]
    if request.status == "swapped" or not state.cached:
        return 0
    return sum(len(one.token_ids) for one in walk(state, request.token_ids, ours=False) if one.outcome == "hit")


def queue(state: MemoryState) -> list[str]:
    """In the order in which the scheduler goes through them: those that run, then those that wait."""
    return [*state.running, *state.swapped, *state.waiting]


def expected(state: MemoryState, budget: int, ahead: bool) -> dict[str, int]:
    """What each would get of ``budget`` where memory suffices, in scheduling order. (Prompts may be cut.)"""
    shares, left = {}, budget
    for request_id in queue(state):
        shares[request_id] = min(to_compute(state, request_id, ahead), left)
        left -= shares[request_id]
    return shares
