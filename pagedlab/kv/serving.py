"""One workload, any kind of memory: which slots hold tokens, which are lost, and who has to wait?

There is no model here: a request is its two lengths. That is all that memory sees of it, and so a strip of slots and a
paged pool can serve the very same workload, step by step, and every slot of both can be accounted for.

A step is what it is in the engine: each running request writes the token that it sampled last and samples the next one;
then those who wait come in, first come, first served, as long as there is room, write their prompt and sample their
first. The token sampled last is never written.
"""

from __future__ import annotations

import datetime
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import pagedlab
from pagedlab.kv.block_pool import BlockPool
from pagedlab.kv.manager import KVCacheManager
from pagedlab.kv.observed import ObservedBlockPool, ObservedKVCacheManager
from pagedlab.trace import events as ev
from pagedlab.trace.recorder import Recorder, source_of


@dataclass
class ServedRequest:
    """A request by its lengths. ``prompt_len`` tokens are there from the start, ``output_len`` are sampled one by one.

    ``arrives``: after how many steps of the workload it comes. ``texts``: what to show for each token (prompt, then
    output), where something is known. Raises ValueError for lengths below 1 and an arrival before the start.
    """

    request_id: str
    prompt_len: int
    output_len: int
    texts: Sequence[str] = ()
    arrives: int = 0
    num_sampled: int = 0
    status: str = "waiting"
    # What a KVCacheManager reads besides.
    num_computed_tokens: int = 0
    block_hashes: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.prompt_len < 1 or self.output_len < 1:
            raise ValueError(
                f"request {self.request_id!r} has {self.prompt_len} prompt and {self.output_len} output tokens; at "
                "least 1 each"
            )
        if self.arrives < 0:
            raise ValueError(f"request {self.request_id!r} arrives after {self.arrives} steps; at least 0")

    @property
    def num_tokens(self) -> int:
        """How many tokens it holds now."""
        return self.prompt_len + self.num_sampled

    @property
    def num_slots(self) -> int:
        """How many slots it needs if it is let run to its end."""
        return self.prompt_len + self.output_len - 1

    @property
    def all_token_ids(self) -> list[int]:
        return [0] * self.num_tokens

    def text(self, position: int) -> str:
        return self.texts[position] if position < len(self.texts) else ""


@dataclass(frozen=True)
class SlotAccount:
    """Every slot of memory, by what it is good for. ``token``: holds a token. ``reserved``: held by a request that will
    write it. ``internal``: held by a request that never will. ``external``: free, and enough in sum for the request
    that waits, but not to be had in one piece. ``free``: the other free ones."""

    token: int
    reserved: int
    internal: int
    external: int
    free: int

    @property
    def total(self) -> int:
        return self.token + self.reserved + self.internal + self.external + self.free


class Memory(Protocol):
    """What contiguous and paged memory have in common. The request names itself; it holds the tokens that are to be in
    memory."""

    num_slots: int

    def config(self) -> dict[str, object]:
        """For a trace's header."""

    def why_never(self, request: ServedRequest) -> str | None:
        """Why the request can never be served here; None where it can."""

    def admit(self, request: ServedRequest) -> bool:
        """Room for all tokens that the request holds now; False, and nothing changed, where there is none."""

    def append(self, request: ServedRequest) -> bool:
        """Room for one token more; False, and nothing changed, where there is none."""

    def finish(self, request: ServedRequest) -> None:
        """Give all back."""

    def locate(self, request_id: str, position: int) -> tuple[int, int]:
        """(block, offset) of a logical position."""

    def account(self, waits: ServedRequest | None) -> SlotAccount:
        """All slots; ``waits``: the request at the head of the queue, which did not fit."""

    def why_waits(self, request: ServedRequest) -> str:
        """Why it did not fit."""


class PagedMemory:
    """Serves requests from blocks, through the engine's own manager (V1, prefix caching off)."""

    def __init__(self, num_blocks: int, block_size: int, max_model_len: int) -> None:
        self.pool: Any = BlockPool(num_blocks, enable_caching=False)
        self.manager: Any = KVCacheManager(self.pool, block_size, max_model_len, enable_caching=False)
        self.num_blocks, self.block_size, self.max_model_len = num_blocks, block_size, max_model_len
        self.num_slots = (num_blocks - 1) * block_size  # the null block holds nothing
        self._requests: dict[str, ServedRequest] = {}

    def config(self) -> dict[str, object]:
        return {
            "era": "v1",
            "num_blocks": self.num_blocks,
            "block_size": self.block_size,
            "max_model_len": self.max_model_len,
        }

    def watch(self, recorder: Recorder) -> None:
        self.pool = ObservedBlockPool(self.pool, self.block_size, recorder)
        self.manager.block_pool = self.pool
        self.manager = ObservedKVCacheManager(self.manager, self.pool, recorder)

    def why_never(self, request: ServedRequest) -> str | None:
        if request.num_slots > self.max_model_len:
            return f"it needs {request.num_slots} slots, and max_model_len is {self.max_model_len}"
        needed = -(-request.num_slots // self.block_size)
        if needed > self.num_blocks - 1:
            return f"it needs {needed} blocks, and there are {self.num_blocks - 1}"
        return None

    def admit(self, request: ServedRequest) -> bool:
        request.num_computed_tokens = 0
        if self.manager.allocate_slots(request, request.num_tokens) is None:
            return False
        request.num_computed_tokens = request.num_tokens
        self._requests[request.request_id] = request
        return True

    def append(self, request: ServedRequest) -> bool:
        if self.manager.allocate_slots(request, 1) is None:
            return False
        request.num_computed_tokens += 1
        return True

    def finish(self, request: ServedRequest) -> None:
        self.manager.free(request)
        del self._requests[request.request_id]

    def locate(self, request_id: str, position: int) -> tuple[int, int]:
        return self.manager.get_block_ids(request_id)[position // self.block_size], position % self.block_size

    def account(self, waits: ServedRequest | None) -> SlotAccount:
        token = reserved = internal = 0
        for request in self._requests.values():
            held = -(-request.num_computed_tokens // self.block_size) * self.block_size
            will_write = min(held, request.num_slots)
            token += request.num_computed_tokens
            reserved += will_write - request.num_computed_tokens
            internal += held - will_write
        free = self.pool.get_num_free_blocks() * self.block_size
        return SlotAccount(token, reserved, internal, 0, free)  # any free block will do, so none is lost between others

    def why_waits(self, request: ServedRequest) -> str:
        return "not enough free slots"


@dataclass(frozen=True)
class ServedStep:
    """What one step left behind. ``account``: before those who finished gave back. ``waits``: why the head of the queue
    did not come in, None where the queue is empty."""

    num_running: int
    num_tokens: int
    account: SlotAccount
    waits: str | None


class Serving:
    """A workload being served. Call :meth:`step` until :attr:`done`.

    ``recorder``: gets the events of the run (its header: :func:`served_header`). Raises ValueError for a request that
    could never be served here.
    """

    def __init__(self, memory: Memory, requests: Sequence[ServedRequest], recorder: Recorder | None = None) -> None:
        for request in requests:
            reason = memory.why_never(request)
            if reason:
                raise ValueError(f"request {request.request_id!r} can never be served here: {reason}")
        self.memory = memory
        self.recorder = recorder
        if recorder and isinstance(memory, PagedMemory):
            memory.watch(recorder)
        self.coming = deque(sorted(requests, key=lambda request: request.arrives))
        self.waiting: deque[ServedRequest] = deque()
        self.running: list[ServedRequest] = []
        self.steps: list[ServedStep] = []
        self.num_preemptions = 0
        self._arrive()

    @property
    def done(self) -> bool:
        return not self.coming and not self.waiting and not self.running

    def step(self) -> ServedStep:
        """One step of the workload."""
        self._emit(ev.StepStarted, self.step, step=len(self.steps) + 1)
        self._arrive()
        written: list[tuple[ServedRequest, int, int]] = []
        preempted = self._append(written)
        refused = None if preempted else self._admit(written)
        for request, start, end in written:
            for position in range(start, end) if self.recorder else ():
                block_id, offset = self.memory.locate(request.request_id, position)
                self._emit(
                    ev.SlotWritten,
                    self.memory.locate,
                    request_id=request.request_id,
                    token_id=0,
                    text=request.text(position),
                    position=position,
                    block_id=block_id,
                    offset=offset,
                )
        for request, _, _ in written:
            self._emit(
                ev.TokenSampled,
                self.step,
                request_id=request.request_id,
                position=request.num_tokens,
                token_id=0,
                text=request.text(request.num_tokens),
            )
            request.num_sampled += 1
        head = self.waiting[0] if self.waiting else None
        result = ServedStep(
            len(self.running),
            sum(end - start for _, start, end in written),
            self.memory.account(refused),
            None if head is None else self.memory.why_waits(head),
        )
        self.steps.append(result)
        for request in [r for r in self.running if r.num_sampled == r.output_len]:
            self.running.remove(request)
            self._release(request)
            request.status = "finished"
            self._emit(ev.RequestFinished, self.step, request_id=request.request_id, reason="length")
        self._emit(
            ev.StepEnded, self.step, step=len(self.steps), num_tokens=result.num_tokens, seconds=0.0, device="no model"
        )
        return result

    def run(self) -> None:
        """To the end."""
        while not self.done:
            self.step()

    def _arrive(self) -> None:
        """Those whose time has come queue up."""
        while self.coming and self.coming[0].arrives <= len(self.steps):
            request = self.coming.popleft()
            self.waiting.append(request)
            n = request.prompt_len
            self._emit(
                ev.RequestArrived,
                self.step,
                request_id=request.request_id,
                token_ids=(0,) * n,
                texts=tuple(request.text(i) for i in range(n)),
                max_tokens=request.output_len,
            )
            self._emit(ev.RequestQueued, self.step, request_id=request.request_id)

    def _append(self, written: list) -> bool:
        """A slot for each running request's last token. True where somebody was thrown out for it (the one admitted
        last)."""
        preempted, index = False, 0
        while index < len(self.running):
            request = self.running[index]
            while not self.memory.append(request):
                preempted = True
                victim = self.running.pop()
                self._release(victim)
                victim.status = "preempted"
                self.waiting.appendleft(victim)
                self.num_preemptions += 1
                self._emit(ev.RequestPreempted, self.step, request_id=victim.request_id)
                if victim is request:
                    return True
            written.append((request, request.num_tokens - 1, request.num_tokens))
            index += 1
        return preempted

    def _admit(self, written: list) -> ServedRequest | None:
        """Whoever fits, in order. Returns the first that did not."""
        while self.waiting:
            request = self.waiting[0]
            if not self.memory.admit(request):
                return request
            self.waiting.popleft()
            request.status = "running"
            self.running.append(request)
            regions = getattr(self.memory, "regions", None)  # contiguous: the region is the event, not the blocks
            if regions is not None:
                start, length = regions[request.request_id]
                self._emit(
                    ev.RegionReserved,
                    self.memory.admit,
                    request_id=request.request_id,
                    start=start,
                    length=length,
                    num_needed=request.num_slots,
                )
            self._emit(ev.RequestAdmitted, self.step, request_id=request.request_id, num_computed_tokens=0)
            written.append((request, 0, request.num_tokens))
        return None

    def _release(self, request: ServedRequest) -> None:
        regions = getattr(self.memory, "regions", {})
        region = regions.get(request.request_id)
        self.memory.finish(request)
        if region:
            self._emit(
                ev.RegionReleased, self.memory.finish, request_id=request.request_id, start=region[0], length=region[1]
            )

    def _emit(self, event: type[ev.Event], by: Any, **fields: Any) -> None:
        if self.recorder:
            self.recorder.emit(event(source=source_of(by), **fields))


@dataclass(frozen=True)
class ServedSummary:
    """The mean over the steps under load, that is, those at whose end somebody still waited. Shares of all slots, 0.0
    to 1.0."""

    num_steps: int  # all of them
    num_loaded_steps: int
    token: float
    reserved: float
    internal: float
    external: float
    free: float
    num_running: float
    waits: dict[str, int]  # in how many steps the head of the queue waited, by reason
    num_preemptions: int


def summary(serving: Serving) -> ServedSummary:
    """What a finished run comes to. Raises ValueError where nobody ever waited: then there was no load."""
    loaded = [step for step in serving.steps if step.waits]
    if not loaded:
        raise ValueError("nobody ever waited in this run: give it more requests, or less memory")
    total = len(loaded) * serving.memory.num_slots
    shares = [
        sum(getattr(step.account, name) for step in loaded) / total
        for name in ("token", "reserved", "internal", "external", "free")
    ]
    return ServedSummary(
        len(serving.steps),
        len(loaded),
        *shares,
        sum(step.num_running for step in loaded) / len(loaded),
        dict(Counter(step.waits for step in loaded)),
        serving.num_preemptions,
    )


def served_header(memory: Memory) -> dict[str, Any]:
    """The header of a trace of such a run. Its device is the CPU, and there is no model."""
    return {
        "schema": ev.SCHEMA_VERSION,
        "pagedlab": pagedlab.__version__,
        "torch": None,
        "triton": None,
        "device": "CPU",
        "compute_capability": None,
        "dtype": None,
        "model": None,
        "config": memory.config(),
        "seed": None,
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "live": True,
    }
