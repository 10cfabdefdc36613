"""What a run's preemptions came to: who had to go, when it came back, and what that took. All of it from the trace."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from pagedlab.trace import MemoryState
from pagedlab.trace import events as ev
from pagedlab.viz.kit.history import History
from pagedlab.viz.kit.scene import bytes_per_block
from pagedlab.viz.walk import num_hit, walk


@dataclass
class Away:
    """One request that made room, until it has come back.

    ``trigger``: for whom there was no free block (often another one); ``needed``: it had no room in a block of its own
    (if False, only the paper's rule wanted a free one). ``num_tokens``: how many had their K and V in memory;
    ``num_blocks``: how many blocks it gave up. ``back``: the step in which it ran again. ``found``: tokens that the
    prefix cache gave back then. ``recomputed``: step -> tokens computed once more; ``carried``: step -> blocks copied
    out, and in again; ``moves``: step -> which block went where. ``kept``: its blocks that nobody else took so far;
    ``findable``: how many of its tokens the prefix cache would find now; ``lost``: step -> how many no longer, and who
    took which block.
    """

    request_id: str
    how: str
    step: int
    trigger: str
    num_tokens: int
    num_blocks: int = 0
    back: int | None = None
    found: int = 0
    recomputed: Counter[int] = field(default_factory=Counter)
    carried: Counter[int] = field(default_factory=Counter)
    needed: bool = True
    moves: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    kept: set[int] = field(default_factory=set)
    findable: int = 0
    lost: dict[int, tuple[int, list[tuple[str, int]]]] = field(default_factory=dict)


@dataclass
class Stay:
    """A request in one state (running, waiting, preempted or swapped) from step ``first`` to ``last`` (None: still)."""

    status: str
    first: int
    last: int | None = None


@dataclass
class Price:
    """What all preemptions came to so far."""

    preemptions: int = 0
    recomputed: int = 0
    found: int = 0
    carried: int = 0  # blocks, out and in counted each
    steps: int = 0
    seconds: float = 0.0


class PreemptionHistory(History):
    """Reads on like its base, and keeps ``aways`` (in order), ``stays`` of each request, and seconds of each step."""

    def _restart(self) -> None:
        super()._restart()
        self.aways: list[Away] = []
        self.stays: dict[str, list[Stay]] = {}
        self.seconds: list[float] = []
        self._away: dict[str, Away] = {}  # the last one of each request
        self._reach: Counter[str] = Counter()  # how far each request was ever computed
        self._trigger = ""  # for whom there was no room, last
        self._needed = True  # had that one no room in its own blocks?
        self._given: dict[str, tuple[str, bool, list[int]]] = {}  # in this step: who gave up -> for whom, which blocks
        self._moved: dict[str, list[tuple[int, int]]] = {}  # in this step: whose blocks went where
        self._taken: list[tuple[Away, str, int]] = []  # in this step: whose old block went to whom
        self._ran: set[str] = set()  # in this step

    @property
    def bytes_per_block(self) -> int:
        return bytes_per_block(self.trace.header, self.trace.header["config"]["block_size"])

    def price(self, position: int) -> Price:
        """After step ``position``."""
        price = Price(steps=min(position, self.num_steps), seconds=sum(self.seconds[:position]))
        for away in self.aways:
            if away.step > position:
                continue
            price.preemptions += 1
            price.recomputed += sum(n for step, n in away.recomputed.items() if step <= position)
            price.carried += sum(n for step, n in away.carried.items() if step <= position)
            price.found += away.found if away.back is not None and away.back <= position else 0
        return price

    @staticmethod
    def findable(state: MemoryState, away: Away) -> int:
        """How many of the tokens that it gave back the prefix cache would find at this moment."""
        found = num_hit(walk(state, state.requests[away.request_id].token_ids)) if state.cached else 0
        return min(found, away.num_tokens)

    def _read(self, event: ev.Event) -> None:
        state, step = self.state, self.num_steps + 1
        match event:
            case ev.StepStarted():
                self._trigger, self._given, self._ran, self._moved, self._taken = "", {}, set(), {}, []
            case ev.AllocationFailed():
                self._trigger, self._needed = event.request_id, self._has_no_room(event)
            case ev.BlocksFreed() if event.pool == "gpu":
                self._given[event.request_id] = (self._trigger, self._needed, list(event.block_ids))
            case ev.BlocksSwappedOut():
                for request_id in event.request_ids:
                    self._given[request_id] = (self._trigger, self._needed, list(event.gpu_block_ids))
                    self._moved[request_id] = list(zip(event.gpu_block_ids, event.cpu_block_ids, strict=True))
            case ev.BlocksSwappedIn():
                for request_id in event.request_ids:
                    self._moved[request_id] = list(zip(event.cpu_block_ids, event.gpu_block_ids, strict=True))
            case ev.BlocksAllocated():
                for away in self._away.values():
                    if away.back is None and away.how != "swap":
                        old = away.kept.intersection(event.block_ids)
                        away.kept -= old
                        self._taken += [(away, event.request_id, b) for b in sorted(old)]
            case ev.RequestPreempted():
                request = state.requests[event.request_id]
                trigger, needed, blocks = self._given.get(event.request_id, (self._trigger, self._needed, []))
                away = Away(event.request_id, event.how, step, trigger, request.num_computed_tokens, len(blocks))
                away.needed = needed
                if event.how == "swap":
                    away.carried[step] += len(blocks)
                    away.moves[step] = self._moved.get(event.request_id, [])
                else:
                    away.kept = {b for b in blocks if b in state.cached}
                self.aways.append(away)
                self._away[event.request_id] = away
            case ev.RequestAdmitted() if event.request_id in self._away:
                away = self._away[event.request_id]
                away.back = step
                if away.how == "swap":
                    away.carried[step] += away.num_blocks
                    away.moves[step] = self._moved.get(event.request_id, [])
                else:
                    away.found = event.num_computed_tokens
            case ev.SlotWritten():
                if event.position < self._reach[event.request_id] and event.request_id in self._away:
                    self._away[event.request_id].recomputed[step] += 1
                self._reach[event.request_id] = max(self._reach[event.request_id], event.position + 1)
            case ev.RequestForked():
                self._reach[event.child_id] = self._reach[event.request_id]
            case ev.StepEnded():
                self.seconds.append(event.seconds)
        super()._read(event)
        match event:
            case ev.RequestAdmitted():
                self._ran.add(event.request_id)

    def _has_no_room(self, event: ev.AllocationFailed) -> bool:
        """Did the one that asked (or another of its group) need a block for what it has to write?"""
        state = self.state
        root = state.requests[event.request_id].root
        for request_id in [r for r in state.running if root and state.requests[r].root == root] or [event.request_id]:
            table = state.tables.get(request_id, [])
            room = len(table) * state.block_size - state.requests[request_id].num_computed_tokens
            if not table or room < min(event.num_tokens, 1) or state.ref_cnt[table[-1]] > 1:  # a shared one is copied
                return True
        return False

    def _end_step(self) -> None:
        super()._end_step()
        for away in self._away.values():
            takers = [(who, block) for of, who, block in self._taken if of is away]
            if away.back is None and (takers or (away.how != "swap" and away.step == self.num_steps)):
                before, away.findable = away.findable, self.findable(self.state, away)
                if takers and away.findable < before:
                    away.lost[self.num_steps] = (before - away.findable, takers)
        for request_id, request in self.state.requests.items():
            stays = self.stays.setdefault(request_id, [])
            open_stay = stays[-1] if stays and stays[-1].last is None else None
            status = request.status
            if status in ("finished", "refused", "arrived"):
                if open_stay:  # it ran in the step that ended it
                    open_stay.last = self.num_steps
                    if open_stay.status != "running" and request_id in self._ran:
                        open_stay.last = self.num_steps - 1
                        stays.append(Stay("running", self.num_steps, self.num_steps))
                elif not stays and request_id in self._ran:
                    stays.append(Stay("running", self.num_steps, self.num_steps))
                continue
            if open_stay and open_stay.status == status:
                continue
            if open_stay:
                open_stay.last = self.num_steps - 1
            stays.append(Stay(status, self.num_steps))


def is_short(state: MemoryState) -> bool:
    """Will the next step have to throw somebody out, as far as the state tells? (Nobody who runs is chunked.)

    Both engines ask in the order of the queue; the paper's wants a free block for each request before it looks whether
    that one needs it (vLLM v0.2.0 ``BlockSpaceManager.can_append_slot``), and lets prompts in first.
    """
    free, size = len(state.free), state.block_size
    if state.era != "v1" and state.waiting and not state.swapped:
        if -(-state.requests[state.waiting[0]].num_tokens // size) <= free:
            return False
    for request_id in state.running:
        if state.era != "v1" and free < 1:
            return True
        request = state.requests[request_id]
        free -= max(0, -(-request.num_tokens // size) - len(state.tables.get(request_id, [])))
        if free < 0:
            return True
    return False
