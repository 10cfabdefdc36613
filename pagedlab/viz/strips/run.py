"""One workload in four kinds of memory, event by event: what every slot is good for, and who fits nowhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from pagedlab.errors import PagedlabError, whole
from pagedlab.kv.contiguous import RESERVATIONS, ContiguousAllocator, ContiguousMemory
from pagedlab.kv.serving import PagedMemory, ServedRequest, Serving, served_header
from pagedlab.trace import MemoryState, Recorder, Trace
from pagedlab.trace import events as ev

KINDS = (*RESERVATIONS, "paged")
ROOM = ev.RequestArrived | ev.RequestAdmitted | ev.RequestPreempted  # what makes a moment of its own
MOST_SLOTS = 4096  # a strip is drawn slot by slot, or run by run; beyond that a run of one slot is narrower than a line
LATEST = 10_000  # steps after which a request may arrive: each is run, four times


class Span(NamedTuple):
    """Neighbouring slots of a strip that are the same thing: ``what`` is "token", "reserved" (will be written),
    "internal" (held, never written) or "free"; ``start`` to ``end`` (exclusive)."""

    start: int
    end: int
    what: str
    owner: str = ""

    @property
    def length(self) -> int:
        return self.end - self.start


class Wait(NamedTuple):
    """Why the head of the queue is not in: it asks for ``needs`` slots; ``scattered`` where the free ones would do in
    sum, but no hole is long enough."""

    request_id: str
    needs: int
    free: int
    longest: int
    scattered: bool


@dataclass(frozen=True)
class Moment:
    """Where the four runs stand: ``num_events[kind]`` of each happened. ``step`` is counted from 1; ``phase`` is "room"
    (who arrived and came in), "tokens" (what was written) or "end" (who is finished)."""

    step: int
    phase: str
    num_events: dict[str, int]


def serve(
    load: Sequence[tuple[int, ...]],
    num_slots: int,
    max_model_len: int,
    block_size: int,
    allocator: Callable[[int], Any] = ContiguousAllocator,
) -> dict[str, Trace]:
    """The traces of this workload in every kind of memory of ``num_slots`` slots. A request is (prompt, output) length,
    and after how many steps it arrives, where it does not wait from the start. ``allocator``: makes the strip of each
    contiguous one.

    Raises PagedlabError for lengths that do not fit, and for too many slots to draw.
    """
    load = [_lengths(request) for request in _requests(load)]
    num_slots, max_model_len = whole(num_slots, "num_slots"), whole(max_model_len, "max_model_len")
    block_size = whole(block_size, "block_size")
    if block_size < 1:
        raise PagedlabError(f"block_size is {block_size}; it must be at least 1.")
    if not callable(allocator):
        raise PagedlabError(f"allocator is {allocator!r}; give what makes one from its number of slots.")
    if num_slots < block_size or num_slots % block_size or num_slots > MOST_SLOTS:
        raise PagedlabError(
            f"num_slots is {num_slots}; give whole blocks of {block_size}, so that both kinds of memory are of one "
            f"size, and at most {MOST_SLOTS} slots."
        )
    traces = {}
    for kind in KINDS:
        try:
            if kind == "paged":
                memory = PagedMemory(1 + num_slots // block_size, block_size, max_model_len)
            else:
                memory = ContiguousMemory(num_slots, max_model_len, kind, allocator=allocator(num_slots))
            requests = [
                ServedRequest(_letter(i), prompt, output, arrives=arrives[0] if arrives else 0)
                for i, (prompt, output, *arrives) in enumerate(load)
            ]
            recorder = Recorder(served_header(memory))
            Serving(memory, requests, recorder).run()
        except ValueError as error:
            raise PagedlabError(f"This workload cannot be served: {error}.") from error
        traces[kind] = recorder.trace
    return traces


def _requests(load: Any) -> list[Any]:
    try:
        return list(load)
    except TypeError:
        raise PagedlabError(f"The workload is {load!r}; give (prompt, output) lengths, one pair a request.") from None


def _lengths(request: Any) -> tuple[int, ...]:
    """A request of a workload, all its numbers plain ones."""
    if not isinstance(request, Sequence) or isinstance(request, str) or len(request) not in (2, 3):
        raise PagedlabError(
            f"A request of the workload is {request!r}; it must be (prompt, output) lengths, or with a third number "
            "the steps after which it arrives."
        )
    numbers = tuple(whole(number, "A length in the workload") for number in request)
    if len(numbers) == 3 and numbers[2] > LATEST:
        raise PagedlabError(f"A request arrives after {numbers[2]} steps; it may arrive after {LATEST} at most.")
    return numbers


def _letter(i: int) -> str:
    return chr(ord("A") + i) if i < 26 else f"R{i}"


def moments(traces: dict[str, Trace]) -> list[Moment]:
    """All moments, the first before anything happened. Those in which no run sees anything new are left out."""
    first = {kind: _before_step_one(trace) for kind, trace in traces.items()}
    result = [Moment(0, "end", first)]
    for step in range(1, max(len(trace.step_ends()) for trace in traces.values()) + 1):
        cuts = {kind: _cuts(trace, step) for kind, trace in traces.items()}
        happened = {kind: traces[kind].events[result[-1].num_events[kind] : cut[0]] for kind, cut in cuts.items()}
        phases = ["tokens"]
        if any(isinstance(e, ROOM) for es in happened.values() for e in es):
            phases.insert(0, "room")
        if any(_someone_finishes(traces[kind], cut) for kind, cut in cuts.items()):
            phases.append("end")
        for phase in phases:
            i = ("room", "tokens", "end").index(phase)
            # Nothing but the step's own end follows a last phase that was left out.
            last = 2 if phase == phases[-1] else i
            result.append(Moment(step, phase, {kind: cut[last] for kind, cut in cuts.items()}))
    return result


def _before_step_one(trace: Trace) -> int:
    return next((i for i, e in enumerate(trace.events) if isinstance(e, ev.StepStarted)), len(trace.events))


def _cuts(trace: Trace, step: int) -> tuple[int, int, int]:
    """How many events had happened when all who fit had come in, when the tokens were written, and at the end."""
    ends = trace.step_ends()
    if step > len(ends):
        return (len(trace.events),) * 3
    first = ends[step - 2] if step > 1 else _before_step_one(trace)
    last = ends[step - 1]
    written = [i for i in range(first, last) if isinstance(trace.events[i], ev.SlotWritten | ev.TokenSampled)]
    return (written[0], written[-1] + 1, last) if written else (last, last, last)


def _someone_finishes(trace: Trace, cuts: tuple[int, int, int]) -> bool:
    return any(isinstance(e, ev.RequestFinished) for e in trace.events[cuts[1] : cuts[2]])


# ------------------------------------------------------------------------------------------- one strip at one moment


@dataclass
class StripState:
    """One kind of memory at one moment: ``state``, and what just happened (``events``)."""

    kind: str
    config: dict
    state: MemoryState
    events: Sequence[ev.Event]

    def __post_init__(self) -> None:
        self.paged = self.kind == "paged"
        self.block_size = self.state.block_size
        self.num_slots = (self.state.num_blocks - 1) * self.block_size if self.paged else self.state.num_blocks
        self.spans = list(self._merged())
        self.wait = self._wait()

    def num(self, what: str) -> int:
        """Slots that are ``what``: "token", "reserved", "internal", "external" or "free" (the other free ones)."""
        if what in ("free", "external"):
            free = sum(span.length for span in self.spans if span.what == "free")
            lost = free if self.wait and self.wait.scattered else 0
            return lost if what == "external" else free - lost
        return sum(span.length for span in self.spans if span.what == what)

    @property
    def holes(self) -> list[Span]:
        return [span for span in self.spans if span.what == "free"]

    @property
    def new_slots(self) -> list[int]:
        """The slots written in this step."""
        return sorted(self._slot(block_id, offset) for block_id, offset in self.state.written)

    def needed(self, request_id: str) -> int:
        """How many slots the request needs if it runs to its end: the token sampled last is never written."""
        request = self.state.requests[request_id]
        return request.num_prompt_tokens + request.max_tokens - 1

    def asks_for(self, request_id: str) -> int:
        """How many slots it takes to let the request in."""
        if self.paged:
            return -(-self.state.requests[request_id].num_tokens // self.block_size) * self.block_size
        return RESERVATIONS[self.config["reservation"]](self.needed(request_id), self.config["max_model_len"])

    def _slot(self, block_id: int, offset: int) -> int:
        return (block_id - 1) * self.block_size + offset if self.paged else block_id

    def _wait(self) -> Wait | None:
        if not self.state.waiting:
            return None
        head = self.state.waiting[0]
        needs, free = self.asks_for(head), sum(span.length for span in self.holes)
        longest = max((span.length for span in self.holes), default=0)
        if needs <= (free if self.paged else longest):
            return None
        return Wait(head, needs, free, longest, needs <= free)

    def _held(self) -> Iterator[tuple[int, int, str]]:
        """(slot, logical position, owner) of every slot that somebody holds."""
        for request_id, region in self.state.regions.items():
            for i in range(region.length):
                yield region.start + i, i, request_id
        for request_id, table in self.state.tables.items():
            for logical, block_id in enumerate(table):
                for offset in range(self.block_size):
                    yield self._slot(block_id, offset), logical * self.block_size + offset, request_id

    def _merged(self) -> Iterator[Span]:
        """The whole strip from left to right."""
        cells: list[tuple[str, str]] = [("free", "")] * self.num_slots
        for slot, position, owner in self._held():
            computed = self.state.requests[owner].num_computed_tokens
            what = "token" if position < computed else "reserved" if position < self.needed(owner) else "internal"
            cells[slot] = (what, owner)
        start = 0
        for i in range(1, self.num_slots + 1):
            if i == self.num_slots or cells[i] != cells[start]:
                yield Span(start, i, *cells[start])
                start = i
