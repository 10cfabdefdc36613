"""Events in, memory out: the one reader of a trace.

``replay`` folds events into a :class:`MemoryState`. Labs, tests and the grader look at memory through it and at
nothing else, so a picture of a live engine and a picture of a saved file come from the same code.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from pagedlab.trace import events as ev
from pagedlab.trace.recorder import Trace


class Slot(NamedTuple):
    """One token's K and V in memory."""

    request_id: str  # who wrote it
    position: int  # logical
    token_id: int
    text: str


@dataclass
class RequestState:
    """What is known of one request. ``status``: arrived, waiting, running, preempted, finished or refused."""

    request_id: str
    token_ids: list[int]
    texts: list[str]
    num_prompt_tokens: int
    max_tokens: int
    status: str = "arrived"
    num_computed_tokens: int = 0
    num_cached_tokens: int = 0  # found in the prefix cache when it was last admitted
    num_preemptions: int = 0
    finish_reason: str | None = None

    @property
    def num_tokens(self) -> int:
        return len(self.token_ids)

    @property
    def pending(self) -> list[tuple[int, str]]:
        """Tokens that have no slot yet, as (position, text): what is left of a prompt, or the token sampled last."""
        return list(enumerate(self.texts))[self.num_computed_tokens :]


@dataclass
class MemoryState:
    """All of memory at one moment. Block 0 is the null block: it is never free and belongs to nobody."""

    num_blocks: int
    block_size: int
    step: int = 0
    running_step: bool = False  # between a step's start and its end
    requests: dict[str, RequestState] = field(default_factory=dict)
    tables: dict[str, list[int]] = field(default_factory=dict)  # request -> physical block of each logical block
    ref_cnt: list[int] = field(default_factory=list)  # by block
    free: list[int] = field(default_factory=list)  # the free queue, head first
    cached: dict[int, str] = field(default_factory=dict)  # block -> hash
    parents: dict[str, str | None] = field(default_factory=dict)  # hash -> hash of the block before it
    slots: list[list[Slot | None]] = field(default_factory=list)  # [block][offset]
    waiting: list[str] = field(default_factory=list)
    running: list[str] = field(default_factory=list)
    written: list[tuple[int, int]] = field(default_factory=list)  # (block, offset) written in the current or last step
    counts: dict[str, int] = field(default_factory=dict)  # events so far, by kind
    edited: bool = False

    @classmethod
    def initial(cls, num_blocks: int, block_size: int) -> MemoryState:
        """The state before the first event: every block but the null block is free, in order."""
        return cls(
            num_blocks,
            block_size,
            ref_cnt=[0] * num_blocks,
            free=list(range(1, num_blocks)),
            slots=[[None] * block_size for _ in range(num_blocks)],
        )

    def apply(self, event: ev.Event) -> None:
        """Fold one event in. Raises ValueError where the event cannot follow on this state."""
        try:
            _HANDLERS[type(event)](self, event)
        except (KeyError, IndexError, ValueError) as error:
            raise ValueError(f"event {event} does not fit the state before it: {error!r}") from error
        self.counts[event.kind] = self.counts.get(event.kind, 0) + 1

    def filled(self, request_id: str, logical_block: int) -> int:
        """How many slots of this logical block hold computed tokens of the request."""
        computed = self.requests[request_id].num_computed_tokens
        return max(0, min(computed - logical_block * self.block_size, self.block_size))

    def owners(self, block_id: int) -> list[str]:
        """The requests whose tables hold the block."""
        return [request_id for request_id, table in self.tables.items() if block_id in table]


def replay(trace: Trace, upto: int | None = None) -> MemoryState:
    """The state after the first ``upto`` events (all where None). Raises ValueError for a trace that contradicts
    itself."""
    if upto is not None and not 0 <= upto <= len(trace.events):
        raise ValueError(f"upto={upto} is outside the trace; allowed: 0 to {len(trace.events)} events")
    config = trace.header["config"]
    state = MemoryState.initial(config["num_blocks"], config["block_size"])
    for event in trace.events[:upto]:
        state.apply(event)
    return state


# ---------------------------------------------------------------------------------- one small function an event


def _step_started(s: MemoryState, e: ev.StepStarted) -> None:
    s.step, s.running_step = e.step, True
    s.written.clear()


def _step_ended(s: MemoryState, e: ev.StepEnded) -> None:
    s.running_step = False


def _request_arrived(s: MemoryState, e: ev.RequestArrived) -> None:
    s.requests[e.request_id] = RequestState(
        e.request_id, list(e.token_ids), list(e.texts), len(e.token_ids), e.max_tokens
    )


def _request_queued(s: MemoryState, e: ev.RequestQueued) -> None:
    s.requests[e.request_id].status = "waiting"
    s.waiting.append(e.request_id)


def _request_admitted(s: MemoryState, e: ev.RequestAdmitted) -> None:
    request = s.requests[e.request_id]
    s.waiting.remove(e.request_id)
    s.running.append(e.request_id)
    request.status = "running"
    request.num_computed_tokens = request.num_cached_tokens = e.num_computed_tokens


def _request_refused(s: MemoryState, e: ev.RequestRefused) -> None:
    s.requests[e.request_id].status = "refused"


def _request_preempted(s: MemoryState, e: ev.RequestPreempted) -> None:
    request = s.requests[e.request_id]
    s.running.remove(e.request_id)
    s.waiting.insert(0, e.request_id)
    request.status = "preempted"
    request.num_computed_tokens = 0
    request.num_preemptions += 1


def _request_finished(s: MemoryState, e: ev.RequestFinished) -> None:
    request = s.requests[e.request_id]
    (s.running if request.status == "running" else s.waiting).remove(e.request_id)
    request.status, request.finish_reason = "finished", e.reason


def _token_sampled(s: MemoryState, e: ev.TokenSampled) -> None:
    request = s.requests[e.request_id]
    if e.position != request.num_tokens:
        raise ValueError(f"token sampled for position {e.position}, but the request holds {request.num_tokens} tokens")
    request.token_ids.append(e.token_id)
    request.texts.append(e.text)


def _looked_up(s: MemoryState, e: ev.PrefixLookedUp | ev.AllocationFailed) -> None:
    s.requests[e.request_id]  # must be known; nothing in memory changes


def _blocks_allocated(s: MemoryState, e: ev.BlocksAllocated) -> None:
    if tuple(s.free[: len(e.block_ids)]) != e.block_ids:
        raise ValueError(f"blocks {e.block_ids} are not the head of the free queue {s.free[: len(e.block_ids) + 2]}…")
    del s.free[: len(e.block_ids)]
    for block_id in e.block_ids:
        s.ref_cnt[block_id] += 1
        s.slots[block_id] = [None] * s.block_size  # what lies there is nobody's any more
    s.tables.setdefault(e.request_id, []).extend(e.block_ids)


def _block_touched(s: MemoryState, e: ev.BlockTouched) -> None:
    if e.revived:
        s.free.remove(e.block_id)
    s.ref_cnt[e.block_id] += 1
    s.tables.setdefault(e.request_id, []).append(e.block_id)


def _block_cached(s: MemoryState, e: ev.BlockCached) -> None:
    s.cached[e.block_id] = e.block_hash
    s.parents[e.block_hash] = e.parent_hash


def _block_evicted(s: MemoryState, e: ev.BlockEvicted) -> None:
    del s.cached[e.block_id]


def _blocks_freed(s: MemoryState, e: ev.BlocksFreed) -> None:
    for block_id in e.block_ids:
        s.ref_cnt[block_id] -= 1
    s.free[:0] = e.to_head
    s.free.extend(e.to_tail)
    s.tables.pop(e.request_id, None)


def _prefix_cache_reset(s: MemoryState, e: ev.PrefixCacheReset) -> None:
    s.cached.clear()
    s.parents.clear()


def _slot_written(s: MemoryState, e: ev.SlotWritten) -> None:
    s.slots[e.block_id][e.offset] = Slot(e.request_id, e.position, e.token_id, e.text)
    s.written.append((e.block_id, e.offset))
    s.requests[e.request_id].num_computed_tokens = e.position + 1


def _table_edited(s: MemoryState, e: ev.TableEdited) -> None:
    table = s.tables[e.request_id]
    if table[e.logical_block] != e.old_block_id:
        raise ValueError(f"logical block {e.logical_block} is at #{table[e.logical_block]}, not at #{e.old_block_id}")
    table[e.logical_block] = e.new_block_id
    s.edited = True


_HANDLERS = {
    ev.StepStarted: _step_started,
    ev.StepEnded: _step_ended,
    ev.RequestArrived: _request_arrived,
    ev.RequestQueued: _request_queued,
    ev.RequestAdmitted: _request_admitted,
    ev.RequestRefused: _request_refused,
    ev.RequestPreempted: _request_preempted,
    ev.RequestFinished: _request_finished,
    ev.TokenSampled: _token_sampled,
    ev.PrefixLookedUp: _looked_up,
    ev.AllocationFailed: _looked_up,
    ev.BlocksAllocated: _blocks_allocated,
    ev.BlockTouched: _block_touched,
    ev.BlockCached: _block_cached,
    ev.BlockEvicted: _block_evicted,
    ev.BlocksFreed: _blocks_freed,
    ev.PrefixCacheReset: _prefix_cache_reset,
    ev.SlotWritten: _slot_written,
    ev.TableEdited: _table_edited,
}
