"""Events in, memory out: the one reader of a trace.

``replay`` folds events into a :class:`MemoryState`. Labs, tests and the grader look at memory through it and at
nothing else, so a picture of a live engine and a picture of a saved file come from the same code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pagedlab.errors import PagedlabError
from pagedlab.trace import events as ev
from pagedlab.trace.recorder import Trace


class Slot(NamedTuple):
    """One token's K and V in memory."""

    request_id: str  # who wrote it; empty where it was found there
    position: int  # logical
    token_id: int
    text: str


@dataclass
class RequestState:
    """What is known of one request. ``status``: arrived, waiting, running, preempted, swapped, finished or refused.

    ``parent``: the request it forked from; ``root``: the first of that line (itself where it did not fork).
    """

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
    parent: str | None = None
    root: str = ""

    @property
    def num_tokens(self) -> int:
        return len(self.token_ids)

    @property
    def pending(self) -> list[tuple[int, str]]:
        """Tokens that have no slot yet, as (position, text): what is left of a prompt, or the token sampled last."""
        return list(enumerate(self.texts))[self.num_computed_tokens :]


@dataclass
class CachedPrefix:
    """A full block that can be hit. ``parent``: the hash of the block before it; ``copies``: blocks that hold it."""

    parent: str | None
    token_ids: tuple[int, ...]
    copies: int = 1
    group: int = 0  # of the layers whose K and V it holds


class Region(NamedTuple):
    """A request's slots before paging: ``start`` to ``start + length`` of the strip, of which it will need
    ``num_needed``."""

    start: int
    length: int
    num_needed: int


@dataclass
class CpuPool:
    """The second pool, where swapped requests wait. Its blocks are numbered from 0 too."""

    num_blocks: int = 0
    tables: dict[str, list[int]] = field(default_factory=dict)
    ref_cnt: list[int] = field(default_factory=list)
    free: list[int] = field(default_factory=list)  # handed out next first
    slots: list[list[Slot | None]] = field(default_factory=list)


@dataclass
class MemoryState:
    """All of memory at one moment.

    ``era`` "v1": block 0 is the null block, which is never free and belongs to nobody. "paper": all blocks are
    alike, the free queue is a stack seen from its top, and swapped requests are in ``cpu``. "contiguous": no blocks
    but a strip of ``num_blocks`` slots (a block size of 1, so that ``slots[i][0]`` is slot i) in ``regions``;
    ``free`` has the slots of the holes, ascending."""

    num_blocks: int
    block_size: int
    era: str = "v1"
    step: int = 0
    running_step: bool = False  # between a step's start and its end
    requests: dict[str, RequestState] = field(default_factory=dict)
    tables: dict[str, list[int]] = field(default_factory=dict)  # request -> physical block of each logical block
    ref_cnt: list[int] = field(default_factory=list)  # by block: its owners, as the pool itself counts them
    free: list[int] = field(default_factory=list)  # the free queue, head first
    cached: dict[int, str] = field(default_factory=dict)  # block -> hash
    prefixes: dict[str, CachedPrefix] = field(default_factory=dict)  # by hash; together they are the tree of prefixes
    num_missed_batches: int = 0  # of a server that we listen to: with one or more, ``prefixes`` may be wrong
    slots: list[list[Slot | None]] = field(default_factory=list)  # [block][offset]
    waiting: list[str] = field(default_factory=list)
    running: list[str] = field(default_factory=list)
    swapped: list[str] = field(default_factory=list)  # the queue of those whose blocks are in the CPU pool
    cpu: CpuPool = field(default_factory=CpuPool)
    regions: dict[str, Region] = field(default_factory=dict)
    written: list[tuple[int, int]] = field(default_factory=list)  # (block, offset) written in the current or last step
    counts: dict[str, int] = field(default_factory=dict)  # events so far, by kind
    windows: tuple[int | None, ...] = (None,)  # of each group of layers, in tokens; None: it looks at everything
    tables_of_others: list[dict[str, list[int]]] = field(default_factory=list)  # as ``tables``, of groups 1 and up
    copy_on_write: bool = True  # false once somebody switched it off (the paper's era)
    edited: bool = False
    edits: dict[str, dict[int, int]] = field(default_factory=dict)  # request -> logical block -> the block it was given

    @classmethod
    def initial(
        cls,
        num_blocks: int,
        block_size: int,
        era: str = "v1",
        num_cpu_blocks: int = 0,
        windows: Sequence[int | None] = (None,),
    ) -> MemoryState:
        """The state before the first event: every block but the null block is free, in order (a stack: from its
        top)."""
        return cls(
            num_blocks,
            block_size,
            era,
            ref_cnt=[0] * num_blocks,
            free=first_free_order(num_blocks, era),
            slots=[[None] * block_size for _ in range(num_blocks)],
            cpu=CpuPool(
                num_cpu_blocks,
                ref_cnt=[0] * num_cpu_blocks,
                free=first_free_order(num_cpu_blocks, "paper"),
                slots=[[None] * block_size for _ in range(num_cpu_blocks)],
            ),
            windows=tuple(windows),
            tables_of_others=[{} for _ in windows[1:]],
        )

    @classmethod
    def of(cls, config: dict[str, Any]) -> MemoryState:
        """The state before the first event of a trace whose header has this ``config``."""
        return cls.initial(
            config["num_blocks"],
            config["block_size"],
            config.get("era", "v1"),
            config.get("num_cpu_blocks", 0),
            config.get("windows", (None,)),
        )

    @property
    def has_null_block(self) -> bool:
        return self.era == "v1"

    @property
    def has_own_order(self) -> bool:
        """Did the pool's free queue ever differ from what the events imply? Then its eviction order is its own."""
        return ev.FreeQueueReordered.kind in self.counts

    def apply(self, event: ev.Event) -> None:
        """Fold one event in. Raises PagedlabError where the event cannot follow on this state."""
        try:
            for request_id in _spoken_of(event):
                self.requests[request_id]  # must have arrived
            _HANDLERS[type(event)](self, event)
        except (KeyError, IndexError, ValueError) as error:
            text = str(event)
            text = text if len(text) <= 400 else f"{text[:400]}…"  # a found pool has a number for each of its blocks
            raise PagedlabError(
                f"The trace contradicts itself: {text} does not fit the state before it ({error!r}). Record it again."
            ) from error
        self.counts[event.kind] = self.counts.get(event.kind, 0) + 1

    def filled(self, request_id: str, logical_block: int) -> int:
        """How many slots of this logical block hold computed tokens of the request."""
        computed = self.requests[request_id].num_computed_tokens
        return max(0, min(computed - logical_block * self.block_size, self.block_size))

    def given(self, request_id: str) -> list[int]:
        """The request's table without edits by hand: the blocks whose ``ref_cnt`` counts it."""
        edits = self.edits.get(request_id, {})
        return [edits.get(logical, block_id) for logical, block_id in enumerate(self.tables[request_id])]

    @property
    def group_tables(self) -> list[dict[str, list[int]]]:
        """``tables`` of each group of layers."""
        return [self.tables, *self.tables_of_others]

    def owners(self, block_id: int) -> list[str]:
        """The requests whose tables hold the block."""
        return [name for tables in self.group_tables for name, table in tables.items() if block_id in table]

    def prefix_children(self) -> dict[str | None, list[str]]:
        """The tree of cached prefixes: for each parent hash (None: the start of a prompt) the hashes behind it.

        A parent that is not in ``prefixes`` itself was removed before its child, or came before we listened.
        """
        children: dict[str | None, list[str]] = {}
        for block_hash, prefix in self.prefixes.items():
            children.setdefault(prefix.parent, []).append(block_hash)
        return children


def first_free_order(num_blocks: int, era: str) -> list[int]:
    """The free queue before the first event, head first."""
    free = list(range(num_blocks))
    return free[1:] if era == "v1" else free[::-1] if era == "paper" else free


def replay(trace: Trace, upto: int | None = None) -> MemoryState:
    """The state after the first ``upto`` events (all where None). Raises ValueError for another number, and
    PagedlabError (which is one) for a trace that contradicts itself."""
    if upto is not None and not 0 <= upto <= len(trace.events):
        raise ValueError(f"upto={upto} is outside the trace; allowed: 0 to {len(trace.events)} events")
    state = MemoryState.of(trace.header["config"])
    for event in trace.events[:upto]:
        state.apply(event)
    return state


# ---------------------------------------------------------------------------------- one small function an event


_BRINGS_A_REQUEST = {ev.RequestArrived.kind, ev.RequestFound.kind}


def _spoken_of(event: ev.Event) -> tuple[str, ...]:
    """The requests that must be known by then."""
    if event.kind in _BRINGS_A_REQUEST:
        return ()
    request_id = getattr(event, "request_id", None)
    return (*getattr(event, "request_ids", ()), *([] if request_id is None else [request_id]))


def _step_started(s: MemoryState, e: ev.StepStarted) -> None:
    s.step, s.running_step = e.step, True
    s.written.clear()


def _step_ended(s: MemoryState, e: ev.StepEnded) -> None:
    s.running_step = False


def _pool_found(s: MemoryState, e: ev.PoolFound) -> None:
    if len(e.ref_cnt) != s.num_blocks:
        raise ValueError(f"a pool of {len(e.ref_cnt)} blocks, where the header says {s.num_blocks}")
    if len(set(e.free)) != len(e.free) or not set(e.free) <= set(first_free_order(s.num_blocks, s.era)):
        raise ValueError("the free queue has a block twice, or one that can never be free")
    found = MemoryState.initial(s.num_blocks, s.block_size, s.era, windows=s.windows)
    found.step, found.free, found.ref_cnt = e.step, list(e.free), list(e.ref_cnt)
    found.counts, found.num_missed_batches = s.counts, s.num_missed_batches + e.num_missed
    found.requests = s.requests  # those that are not found again are over: they ended while nobody listened
    for request in s.requests.values():
        if request.status != "refused":
            request.status = "finished"
    vars(s).update(vars(found))


def _request_found(s: MemoryState, e: ev.RequestFound) -> None:
    queues = {"running": s.running, "waiting": s.waiting, "preempted": s.waiting}
    _check_name(s, e.request_id)
    if e.status not in queues:
        raise ValueError(f"the status is {e.status!r}; allowed are {', '.join(queues)}")
    if not len(e.texts) == len(e.token_ids) >= max(e.num_computed_tokens, e.num_prompt_tokens):
        raise ValueError(
            f"{len(e.texts)} texts, {e.num_prompt_tokens} prompt tokens and {e.num_computed_tokens} computed ones of "
            f"{len(e.token_ids)} tokens"
        )
    if not 0 <= e.num_computed_tokens <= len(e.block_ids) * s.block_size:
        raise ValueError(f"{e.num_computed_tokens} computed tokens in {len(e.block_ids)} blocks of {s.block_size}")
    if not set(e.block_ids) <= set(range(s.num_blocks)):
        raise ValueError(f"blocks go from 0 to {s.num_blocks - 1}")
    request = RequestState(
        e.request_id,
        list(e.token_ids),
        list(e.texts),
        e.num_prompt_tokens,
        e.max_tokens,
        status=e.status,
        num_computed_tokens=e.num_computed_tokens,
        num_preemptions=e.num_preemptions,
        root=e.request_id,
    )
    s.requests[e.request_id] = request
    queues[e.status].append(e.request_id)
    if e.block_ids:
        s.tables[e.request_id] = list(e.block_ids)
    for position in range(e.num_computed_tokens):
        block, offset = divmod(position, s.block_size)
        s.slots[e.block_ids[block]][offset] = Slot(
            e.request_id, position, e.token_ids[position], e.texts[position]
        )


def _block_found(s: MemoryState, e: ev.BlockFound) -> None:
    if e.block_id in s.cached or e.block_id not in range(int(s.has_null_block), s.num_blocks):
        raise ValueError("there is no such block, or it was found with a hash before")
    if not len(e.texts) == len(e.token_ids) <= s.block_size:
        raise ValueError(f"{len(e.texts)} texts for {len(e.token_ids)} tokens in a block of {s.block_size}")
    s.cached[e.block_id] = e.block_hash
    _store_prefix(s, e)
    if s.slots[e.block_id][0] is None:  # no request that was found holds it
        for offset, (token_id, text) in enumerate(zip(e.token_ids, e.texts, strict=True)):
            s.slots[e.block_id][offset] = Slot("", e.position + offset, token_id, text)


def _request_arrived(s: MemoryState, e: ev.RequestArrived) -> None:
    _check_name(s, e.request_id)
    if len(e.texts) != len(e.token_ids):
        raise ValueError(f"{len(e.texts)} texts for {len(e.token_ids)} tokens")
    s.requests[e.request_id] = RequestState(
        e.request_id, list(e.token_ids), list(e.texts), len(e.token_ids), e.max_tokens, root=e.request_id
    )


def _check_name(s: MemoryState, request_id: str) -> None:
    """A name may be used again once its request is over."""
    before = s.requests.get(request_id)
    if before and before.status not in ("finished", "refused"):
        raise ValueError(f"a request of this name is {before.status}")


def _request_queued(s: MemoryState, e: ev.RequestQueued) -> None:
    s.requests[e.request_id].status = "waiting"
    s.waiting.append(e.request_id)


def _request_admitted(s: MemoryState, e: ev.RequestAdmitted) -> None:
    request = s.requests[e.request_id]
    if e.num_computed_tokens > request.num_tokens:
        raise ValueError(f"the request has only {request.num_tokens} tokens")
    if request.status == "swapped":
        s.swapped.remove(e.request_id)
    else:
        s.waiting.remove(e.request_id)
        request.num_cached_tokens = e.num_computed_tokens
    s.running.append(e.request_id)
    request.status = "running"
    request.num_computed_tokens = e.num_computed_tokens


def _request_refused(s: MemoryState, e: ev.RequestRefused) -> None:
    s.requests[e.request_id].status = "refused"


def _request_preempted(s: MemoryState, e: ev.RequestPreempted) -> None:
    request = s.requests[e.request_id]
    s.running.remove(e.request_id)
    request.num_preemptions += 1
    if e.how == "swap":
        s.swapped.insert(0, e.request_id)
        request.status = "swapped"
    else:
        s.waiting.insert(0, e.request_id)
        request.status = "preempted"
        request.num_computed_tokens = 0


def _request_finished(s: MemoryState, e: ev.RequestFinished) -> None:
    request = s.requests[e.request_id]
    {"running": s.running, "swapped": s.swapped}.get(request.status, s.waiting).remove(e.request_id)
    request.status, request.finish_reason = "finished", e.reason


def _token_sampled(s: MemoryState, e: ev.TokenSampled) -> None:
    request = s.requests[e.request_id]
    if e.position != request.num_tokens:
        raise ValueError(f"token sampled for position {e.position}, but the request holds {request.num_tokens} tokens")
    request.token_ids.append(e.token_id)
    request.texts.append(e.text)


def _looked_up(s: MemoryState, e: ev.PrefixLookedUp | ev.AllocationFailed) -> None:
    s.requests[e.request_id]  # must be known; nothing in memory changes


def _count(pool: MemoryState | CpuPool, block_ids: Sequence[int], change: int, recorded: Sequence[int]) -> None:
    """``change`` owners more for each of the blocks; where the pool's own counts were recorded, these instead."""
    for block_id in block_ids:
        pool.ref_cnt[block_id] += change
    if recorded:
        for block_id, ref_cnt in zip(block_ids, recorded, strict=True):
            pool.ref_cnt[block_id] = ref_cnt


def _blocks_allocated(s: MemoryState, e: ev.BlocksAllocated) -> None:
    if tuple(s.free[: len(e.block_ids)]) != e.block_ids:
        raise ValueError(f"blocks {e.block_ids} are not the head of the free queue {s.free[: len(e.block_ids) + 2]}…")
    del s.free[: len(e.block_ids)]
    _count(s, e.block_ids, 1, e.ref_cnt)
    for block_id in e.block_ids:
        s.slots[block_id] = [None] * s.block_size  # what lies there is nobody's any more
    s.group_tables[e.group].setdefault(e.request_id, []).extend(e.block_ids)


def _block_touched(s: MemoryState, e: ev.BlockTouched) -> None:
    if e.revived:
        s.free.remove(e.block_id)
    _count(s, [e.block_id], 1, [] if e.ref_cnt is None else [e.ref_cnt])
    table = s.group_tables[e.group].setdefault(e.request_id, [])
    table += [0] * ((e.logical_block or 0) - len(table))
    table.append(e.block_id)


def _block_cached(s: MemoryState, e: ev.BlockCached) -> None:
    s.cached[e.block_id] = e.block_hash
    _store_prefix(s, e)


def _block_evicted(s: MemoryState, e: ev.BlockEvicted) -> None:
    del s.cached[e.block_id]
    _remove_prefix(s, e)


def _blocks_freed(s: MemoryState, e: ev.BlocksFreed) -> None:
    pool = s.cpu if e.pool == "cpu" else s
    _count(pool, e.block_ids, -1, e.ref_cnt)
    pool.free[:0] = e.to_head
    pool.free.extend(e.to_tail)
    (s.group_tables[e.group] if pool is s else pool.tables).pop(e.request_id, None)
    s.edits.pop(e.request_id, None)


def _out_of_window(s: MemoryState, e: ev.BlocksOutOfWindow) -> None:
    _count(s, e.block_ids, -1, e.ref_cnt)
    s.free[:0] = e.to_head
    s.free.extend(e.to_tail)
    table = s.group_tables[e.group][e.request_id]
    for block_id in e.block_ids:
        table[table.index(block_id)] = 0


def _free_queue_reordered(s: MemoryState, e: ev.FreeQueueReordered) -> None:
    pool, moved = s.cpu if e.pool == "cpu" else s, set(e.block_ids)
    queue = [block_id for block_id in pool.free if block_id not in moved]
    if len(moved) != len(e.block_ids) or len(queue) + len(moved) != len(pool.free):
        raise ValueError(f"blocks {e.block_ids} are not all free, each once")
    for block_id, place in zip(e.block_ids, e.places, strict=True):
        queue.insert(place, block_id)
    if [queue[place] for place in e.places] != list(e.block_ids):
        raise ValueError(f"places {e.places} do not ascend, or are beyond the {len(queue)} free blocks")
    pool.free[:] = queue


def _prefix_cache_reset(s: MemoryState, e: ev.PrefixCacheReset) -> None:
    s.cached.clear()
    s.prefixes.clear()


def _store_prefix(s: MemoryState, e: ev.BlockCached | ev.BlockFound | ev.PrefixStored) -> None:
    if e.block_hash in s.prefixes:
        s.prefixes[e.block_hash].copies += 1
    else:
        s.prefixes[e.block_hash] = CachedPrefix(e.parent_hash, e.token_ids, group=getattr(e, "group", 0))


def _remove_prefix(s: MemoryState, e: ev.BlockEvicted | ev.PrefixRemoved) -> None:
    s.prefixes[e.block_hash].copies -= 1
    if s.prefixes[e.block_hash].copies == 0:
        del s.prefixes[e.block_hash]


def _prefix_removed(s: MemoryState, e: ev.PrefixRemoved) -> None:
    if e.block_hash in s.prefixes:  # else it was stored before we listened
        _remove_prefix(s, e)


def _batch_received(s: MemoryState, e: ev.BatchReceived) -> None:
    s.step += 1
    s.num_missed_batches += e.num_missed


def _request_forked(s: MemoryState, e: ev.RequestForked) -> None:
    parent = s.requests[e.request_id]
    s.requests[e.child_id] = RequestState(
        e.child_id,
        list(parent.token_ids),
        list(parent.texts),
        parent.num_prompt_tokens,
        parent.max_tokens,
        status=parent.status,
        num_computed_tokens=parent.num_computed_tokens,
        num_cached_tokens=parent.num_cached_tokens,
        parent=parent.request_id,
        root=parent.root,
    )
    pool, queue = (s.cpu, s.swapped) if parent.status == "swapped" else (s, s.running)
    pool.tables[e.child_id] = list(pool.tables[e.request_id])
    _count(pool, s.cpu.tables[e.child_id] if pool is s.cpu else s.given(e.request_id), 1, e.ref_cnt)
    if e.request_id in s.edits:
        s.edits[e.child_id] = dict(s.edits[e.request_id])
    # The sequences of a request stand together in the queue.
    family = [i for i, request_id in enumerate(queue) if s.requests[request_id].root == parent.root]
    queue.insert(family[-1] + 1, e.child_id)


def _block_copied(s: MemoryState, e: ev.BlockCopied) -> None:
    table, given = s.tables[e.request_id], s.given(e.request_id)
    if given[e.logical_block] != e.from_block_id or s.free[0] != e.to_block_id:
        raise ValueError(f"logical block {e.logical_block} is at #{given[e.logical_block]}; free next is #{s.free[0]}")
    s.free.pop(0)
    table[e.logical_block] = e.to_block_id
    s.edits.get(e.request_id, {}).pop(e.logical_block, None)
    _count(s, [e.from_block_id], -1, e.ref_cnt[:1])
    _count(s, [e.to_block_id], 1, e.ref_cnt[1:])
    s.slots[e.to_block_id] = list(s.slots[e.from_block_id])


def _swapped_out(s: MemoryState, e: ev.BlocksSwappedOut) -> None:
    _move(e.request_ids, dict(zip(e.gpu_block_ids, e.cpu_block_ids, strict=True)), s, s.cpu, e.freed, s.block_size)
    _count(s, e.gpu_block_ids, 0, e.gpu_ref_cnt)
    _count(s.cpu, e.cpu_block_ids, 0, e.cpu_ref_cnt)
    for request_id in e.request_ids:  # the bytes went from where the manager put them: an edit ends here
        s.edits.pop(request_id, None)


def _swapped_in(s: MemoryState, e: ev.BlocksSwappedIn) -> None:
    _move(e.request_ids, dict(zip(e.cpu_block_ids, e.gpu_block_ids, strict=True)), s.cpu, s, e.freed, s.block_size)
    _count(s, e.gpu_block_ids, 0, e.gpu_ref_cnt)
    _count(s.cpu, e.cpu_block_ids, 0, e.cpu_ref_cnt)


def _move(
    request_ids: tuple[str, ...],
    mapping: dict[int, int],
    origin: MemoryState | CpuPool,
    target: MemoryState | CpuPool,
    freed: tuple[int, ...],
    block_size: int,
) -> None:
    new = list(mapping.values())
    if target.free[: len(new)] != new:
        raise ValueError(f"blocks {new} are not the head of the free queue {target.free[: len(new)]}")
    del target.free[: len(new)]
    for old_id, new_id in mapping.items():
        target.slots[new_id], origin.slots[old_id] = origin.slots[old_id], [None] * block_size
    for request_id in request_ids:
        table = origin.given(request_id) if isinstance(origin, MemoryState) else origin.tables[request_id]
        del origin.tables[request_id]
        target.tables[request_id] = [mapping[block_id] for block_id in table]
        for block_id in table:
            origin.ref_cnt[block_id] -= 1
            target.ref_cnt[mapping[block_id]] += 1
    origin.free[:0] = freed


def _region_reserved(s: MemoryState, e: ev.RegionReserved) -> None:
    end = e.start + e.length
    if [slot for slot in s.free if e.start <= slot < end] != list(range(e.start, end)):
        raise ValueError(f"slots {e.start} to {end - 1} are not all free")
    s.free = [slot for slot in s.free if not e.start <= slot < end]
    s.regions[e.request_id] = Region(e.start, e.length, e.num_needed)
    for slot in range(e.start, end):
        s.ref_cnt[slot] += 1
        s.slots[slot] = [None]


def _region_released(s: MemoryState, e: ev.RegionReleased) -> None:
    region = s.regions.pop(e.request_id)
    if (region.start, region.length) != (e.start, e.length):
        raise ValueError(f"the request holds {region.length} slots from {region.start} on")
    for slot in range(e.start, e.start + e.length):
        s.ref_cnt[slot] -= 1
    s.free = sorted([*s.free, *range(e.start, e.start + e.length)])


def _slot_written(s: MemoryState, e: ev.SlotWritten) -> None:
    if e.position >= s.requests[e.request_id].num_tokens:
        raise ValueError(f"the request has only {s.requests[e.request_id].num_tokens} tokens")
    s.slots[e.block_id][e.offset] = Slot(e.request_id, e.position, e.token_id, e.text)
    s.written.append((e.block_id, e.offset))
    s.requests[e.request_id].num_computed_tokens = e.position + 1


def _table_edited(s: MemoryState, e: ev.TableEdited) -> None:
    table = s.tables[e.request_id]
    if table[e.logical_block] != e.old_block_id:
        raise ValueError(f"logical block {e.logical_block} is at #{table[e.logical_block]}, not at #{e.old_block_id}")
    table[e.logical_block] = e.new_block_id
    s.edits.setdefault(e.request_id, {}).setdefault(e.logical_block, e.old_block_id)
    s.edited = True


def _copy_on_write_switched(s: MemoryState, e: ev.CopyOnWriteSwitched) -> None:
    if s.era != "paper":
        raise ValueError("only the paper's era copies on write")
    s.copy_on_write = e.on
    s.edited = True


def _kernel_span(s: MemoryState, e: ev.KernelSpan) -> None:
    """Reading changes nothing in memory."""


_HANDLERS = {
    ev.StepStarted: _step_started,
    ev.StepEnded: _step_ended,
    ev.PoolFound: _pool_found,
    ev.RequestFound: _request_found,
    ev.BlockFound: _block_found,
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
    ev.BlocksOutOfWindow: _out_of_window,
    ev.FreeQueueReordered: _free_queue_reordered,
    ev.PrefixCacheReset: _prefix_cache_reset,
    ev.BatchReceived: _batch_received,
    ev.PrefixStored: _store_prefix,
    ev.PrefixRemoved: _prefix_removed,
    ev.RequestForked: _request_forked,
    ev.BlockCopied: _block_copied,
    ev.BlocksSwappedOut: _swapped_out,
    ev.BlocksSwappedIn: _swapped_in,
    ev.RegionReserved: _region_reserved,
    ev.RegionReleased: _region_released,
    ev.SlotWritten: _slot_written,
    ev.TableEdited: _table_edited,
    ev.CopyOnWriteSwitched: _copy_on_write_switched,
    ev.KernelSpan: _kernel_span,
}
