"""What can happen to memory, one small frozen dataclass each.

Everything pagedlab shows is computed from a list of these events, in the order in which they happened. They hold plain
values only (ints, strings, tuples), so a trace can be written to a file, read on another machine and replayed there.

``source`` names the function that did it, as ``module:qualified.name`` (never a path). Where the function was a
learner's own part, it names the learner's function.

``group``: of which group of the model's layers the table is that an event is about. 0 where there is one group, and in
traces from before there were more.

``ref_cnt`` is what the pool itself counts for these blocks once the thing is done: in an honest run as many owners as
the events tell of, in a faulty one perhaps not. Empty, or None, where it was not recorded (a trace from before it was).
"""

from __future__ import annotations

import dataclasses
import re
import types
import typing
from dataclasses import dataclass
from typing import Any, ClassVar

SCHEMA_VERSION = 4  # 2 has FreeQueueReordered, 3 PoolFound and RequestFound, 4 groups; older ones are read as they are
READABLE = (1, 2, 3, 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    kind: ClassVar[str]
    source: str = ""


# ----------------------------------------------------------------------------------------------------- steps


@dataclass(frozen=True, slots=True, kw_only=True)
class StepStarted(Event):
    """The engine begins step ``step`` (counted from 1)."""

    step: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StepEnded(Event):
    """The step is over: ``num_tokens`` went through the model in ``seconds`` on ``device``."""

    step: int
    num_tokens: int
    seconds: float
    device: str


# -------------------------------------------------------------------------------------- found in mid-run


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolFound(Event):
    """A watch began in mid-run, or began again after it had lost something: so the pool stood then. What the trace said
    before is void; requests that it told of and that are not found again are over.

    ``step``: how many steps the engine had begun since it is watched. ``free``: the free queue, head first.
    ``ref_cnt``: of all blocks. ``num_missed``: messages that were sent since the one before and never came here. Behind
    it comes a :class:`RequestFound` for each unfinished request and a :class:`BlockFound` for each block with a hash.
    """

    step: int
    free: tuple[int, ...]
    ref_cnt: tuple[int, ...]
    num_missed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFound(Event):
    """An unfinished request, as it was found: those that run first, then those that wait, each in their queue's order.

    ``status``: running, waiting or preempted. ``block_ids``: its table. The K and V of its first
    ``num_computed_tokens`` tokens are in memory.
    """

    request_id: str
    token_ids: tuple[int, ...]
    texts: tuple[str, ...]
    num_prompt_tokens: int
    max_tokens: int
    status: str
    num_computed_tokens: int
    block_ids: tuple[int, ...]
    num_preemptions: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockFound(Event):
    """A block with a hash, as it was found, and what it holds: the tokens from ``position`` on of whoever filled it.
    No tokens where nobody watched when it was filled."""

    block_id: int
    block_hash: str
    parent_hash: str | None
    position: int
    token_ids: tuple[int, ...]
    texts: tuple[str, ...]


# -------------------------------------------------------------------------------------------------- requests


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestArrived(Event):
    """A request was handed to the engine. ``texts`` holds each prompt token's own text."""

    request_id: str
    token_ids: tuple[int, ...]
    texts: tuple[str, ...]
    max_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestQueued(Event):
    """The request waits: at the back of the waiting queue."""

    request_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestAdmitted(Event):
    """The request runs from now on. ``num_computed_tokens`` of its tokens need not be computed: found in the prefix
    cache, or (in the paper's era) computed by a sequence that it shares blocks with, or kept by a swap."""

    request_id: str
    num_computed_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRefused(Event):
    """The request can never run here and was turned away."""

    request_id: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestPreempted(Event):
    """Memory ran out and this running request made room; it waits again, at the head of its queue.

    ``how``: "recompute" (its blocks were given back) or "swap" (they were carried to the CPU pool). ``reason``: why it
    was recomputed although swapping was asked for, else empty.
    """

    request_id: str
    how: str = "recompute"
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFinished(Event):
    """The request is over; ``reason`` is "stop", "length", "abort", or "dropped" (a beam that fell behind the others);
    of a watched vLLM also "error" or "repetition"."""

    request_id: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenSampled(Event):
    """The model chose a token. It has a position but no slot: its K and V are written in a later step, or never."""

    request_id: str
    position: int
    token_id: int
    text: str


# ---------------------------------------------------------------------------------------------------- blocks


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixLookedUp(Event):
    """The prefix cache was asked for the start of a request; ``block_ids`` hold ``num_tokens`` of its tokens. (In a
    group with a window the null block stands for those that it does not need.)"""

    request_id: str
    block_ids: tuple[int, ...]
    num_tokens: int
    group: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationFailed(Event):
    """``num_tokens`` more tokens did not fit: the pool had only ``num_free_blocks`` blocks left."""

    request_id: str
    num_tokens: int
    num_free_blocks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BlocksAllocated(Event):
    """Blocks left the head of the free queue and were appended to the request's table, in this order. (Where they were
    not its head, a :class:`FreeQueueReordered` before this one says so.)"""

    request_id: str
    block_ids: tuple[int, ...]
    ref_cnt: tuple[int, ...] = ()
    group: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockTouched(Event):
    """A cached block gained one more owner and was appended to the request's table.

    ``revived``: nobody owned it, so it was taken out of the middle of the free queue. ``logical_block``: its place in
    the table, where null blocks stand before it that no event tells of; else None.
    """

    request_id: str
    block_id: int
    revived: bool
    ref_cnt: int | None = None
    group: int = 0
    logical_block: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockCached(Event):
    """A full block got a hash, so that a later request with the same tokens can find it."""

    block_id: int
    block_hash: str
    parent_hash: str | None
    token_ids: tuple[int, ...]
    group: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockEvicted(Event):
    """A block lost its hash: because it was handed out again or, in a watched vLLM, in a rarer way."""

    block_id: int
    block_hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BlocksFreed(Event):
    """A request gave up its table. ``block_ids``: every block that lost an owner, in that order.

    Those that nobody owns any more went into the free queue: ``to_head`` in front of it and ``to_tail`` behind it,
    both in queue order. ``pool``: "gpu", or "cpu" where the request was swapped out.
    """

    request_id: str
    block_ids: tuple[int, ...]
    to_head: tuple[int, ...]
    to_tail: tuple[int, ...]
    pool: str = "gpu"
    ref_cnt: tuple[int, ...] = ()
    group: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BlocksOutOfWindow(Event):
    """The request's window has moved past these blocks, in a group of layers that look back only so far: it gave them
    up while it runs, and the null block stands in their places. Else as in :class:`BlocksFreed`."""

    request_id: str
    block_ids: tuple[int, ...]
    to_head: tuple[int, ...]
    to_tail: tuple[int, ...]
    ref_cnt: tuple[int, ...] = ()
    group: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeQueueReordered(Event):
    """Free blocks stand elsewhere in the free queue than the events before this one imply: the pool has an eviction
    order of its own.

    ``block_ids[i]`` stands at place ``places[i]`` (0: the head, which is handed out next; the places ascend); the other
    free blocks keep their order around these. ``pool``: "gpu", or "cpu" for the pool of swapped requests.
    """

    block_ids: tuple[int, ...]
    places: tuple[int, ...]
    pool: str = "gpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixCacheReset(Event):
    """All hashes were dropped."""


# -------------------------------------------------------------------------- what a server elsewhere tells of its cache


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchReceived(Event):
    """A batch of KV events came from a server; the events since the batch before are its content. See
    ``pagedlab.attach``.

    ``sequence``: the server's number for the batch. ``timestamp``: when it was sent, in seconds since 1970 by the
    server's clock. ``num_missed``: batches that were sent between the one before and this one but never came here.
    """

    sequence: int
    timestamp: float
    num_missed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixStored(Event):
    """A server cached one full block. It says what the block holds, not which block it is nor who uses it."""

    block_hash: str
    parent_hash: str | None
    token_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixRemoved(Event):
    """A block of a server lost this hash, as a rule because it was handed out again."""

    block_hash: str


# ------------------------------------------------------------------------------------------- the paper's era


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestForked(Event):
    """``child_id`` came to be: it holds the same tokens as ``request_id``, and shares every block of it (``ref_cnt``:
    of these, in the order of its table)."""

    request_id: str
    child_id: str
    ref_cnt: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockCopied(Event):
    """Copy-on-write: the request is about to write into ``from_block_id``, which others hold too, so it got
    ``to_block_id`` (from the head of the free queue) in its place, with a copy of the bytes. ``ref_cnt``: of these two
    blocks."""

    request_id: str
    logical_block: int
    from_block_id: int
    to_block_id: int
    ref_cnt: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BlocksSwappedOut(Event):
    """All blocks of these requests (the sequences of one group) were moved to the CPU pool.

    ``gpu_block_ids[i]`` went to ``cpu_block_ids[i]``, in the order moved; a shared block moved once. ``freed``: the
    blocks in front of the free queue now, in queue order.
    """

    request_ids: tuple[str, ...]
    gpu_block_ids: tuple[int, ...]
    cpu_block_ids: tuple[int, ...]
    freed: tuple[int, ...]
    gpu_ref_cnt: tuple[int, ...] = ()
    cpu_ref_cnt: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BlocksSwappedIn(Event):
    """All blocks of these requests came back: ``cpu_block_ids[i]`` to ``gpu_block_ids[i]``. ``freed``: of the CPU
    pool."""

    request_ids: tuple[str, ...]
    gpu_block_ids: tuple[int, ...]
    cpu_block_ids: tuple[int, ...]
    freed: tuple[int, ...]
    gpu_ref_cnt: tuple[int, ...] = ()
    cpu_ref_cnt: tuple[int, ...] = ()


# ------------------------------------------------------------------------------------- contiguous allocation


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionReserved(Event):
    """Before paging: slots ``start`` to ``start + length`` (exclusive) of the strip are this request's and nobody
    else's.

    It will need ``num_needed`` of them, if it is let run to its end.
    """

    request_id: str
    start: int
    length: int
    num_needed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionReleased(Event):
    """The request's slots are a hole again, joined with the holes beside it."""

    request_id: str
    start: int
    length: int


# ----------------------------------------------------------------------------------------------------- slots


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotWritten(Event):
    """K and V of one token were written: logical ``position`` of the request, physical ``block_id`` and ``offset``."""

    request_id: str
    token_id: int
    text: str
    position: int
    block_id: int
    offset: int
    group: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TableEdited(Event):
    """Somebody changed a block table by hand. Nothing after this is an honest run."""

    request_id: str
    logical_block: int
    old_block_id: int
    new_block_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyOnWriteSwitched(Event):
    """Somebody switched copy-on-write off or on by hand: while it is off, whoever writes into a shared block overwrites
    what the others have there. Nothing after this is an honest run."""

    on: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelSpan(Event):
    """One program of a watched attention kernel: which blocks it read, in order, and on a GPU when and where.

    ``request``: the request's place in the step's batch. ``kv_head`` and ``split``: the program's other two numbers.
    The three tuples belong together, one entry a block. ``sm``, ``start_ns`` and ``end_ns`` (from the first program's
    start) are None where no GPU ran it.
    """

    kernel: str
    request: int
    kv_head: int
    split: int
    iterations: tuple[int, ...]
    logical_blocks: tuple[int, ...]
    physical_blocks: tuple[int, ...]
    sm: int | None = None
    start_ns: int | None = None
    end_ns: int | None = None


# -------------------------------------------------------------------------------------- to and from plain data


def _kind(cls: type[Event]) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()


def _subclasses(cls: type[Event]) -> list[type[Event]]:
    return [c for child in cls.__subclasses__() for c in (child, *_subclasses(child))]


# `slots=True` makes a second class and leaves the first one among the subclasses until it is collected: the module's
# own names are the real ones.
EVENT_TYPES: dict[str, type[Event]] = {
    _kind(cls): cls
    for cls in list(globals().values())
    if isinstance(cls, type) and issubclass(cls, Event) and cls is not Event
}
for _name, _cls in EVENT_TYPES.items():
    _cls.kind = _name

_FIELD_TYPES = {
    name: {f: typing.get_type_hints(cls)[f] for f in (x.name for x in dataclasses.fields(cls))}
    for name, cls in EVENT_TYPES.items()
}


def to_dict(event: Event) -> dict[str, Any]:
    """The event as a JSON-ready dict; ``kind`` comes first."""
    return {"kind": event.kind} | {f: getattr(event, f) for f in _FIELD_TYPES[event.kind]}


def from_dict(data: dict[str, Any]) -> Event:
    """The event that :func:`to_dict` made ``data`` from. Raises ValueError where kind, fields or types do not fit."""
    if not isinstance(data, dict):
        raise ValueError(f"an event must be a JSON object, not {type(data).__name__}")
    kind = data.get("kind")
    if not isinstance(kind, str) or kind not in EVENT_TYPES:
        raise ValueError(f"unknown event kind {kind!r}; known kinds: {', '.join(EVENT_TYPES)}")
    cls, types_of = EVENT_TYPES[kind], _FIELD_TYPES[kind]
    fields = {k: tuple(v) if isinstance(v, list) else v for k, v in data.items() if k != "kind"}
    for name, value in fields.items():
        if name not in types_of:
            raise ValueError(f"event {kind!r} has no field {name!r}")
        if not _fits(value, types_of[name], signed=name.endswith("ref_cnt")):
            raise ValueError(f"field {name!r} of event {kind!r} must be {types_of[name]}, not {value!r}")
    try:
        return cls(**fields)
    except TypeError as error:
        raise ValueError(f"event {kind!r}: {error}") from None


def _fits(value: Any, hint: Any, signed: bool = False) -> bool:
    origin = typing.get_origin(hint)
    if origin is tuple:
        item = typing.get_args(hint)[0]
        return isinstance(value, tuple) and all(_fits(x, item, signed) for x in value)
    if origin is types.UnionType:
        return any(_fits(value, option, signed) for option in typing.get_args(hint))
    if hint is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if hint is int:  # all of them count or number something; owners that are given up too often are counted below 0
        return isinstance(value, int) and not isinstance(value, bool) and (signed or value >= 0)
    return isinstance(value, hint)
