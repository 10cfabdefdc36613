"""Reads a growing trace once, forward, and remembers who held which block after which step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pagedlab.trace import MemoryState, Trace
from pagedlab.trace import events as ev

KEPT = ""  # the owner of a block that nobody holds, but that the prefix cache still finds


@dataclass
class Run:
    """A block in the same hands from step ``first`` to step ``last`` (None: still). ``owners``: all of them where
    they share it, in order of arrival."""

    owner: str
    first: int
    last: int | None = None
    owners: tuple[str, ...] = ()


class History:
    """``state``: memory after every event read so far. ``runs[block]``: its owners over time, oldest first.
    ``reads``: how often there was something new to read; what was drawn of the same reading need not be drawn again.
    """

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.reads = 0
        self._restart()

    def _restart(self) -> None:
        self.state = MemoryState.of(self.trace.header["config"])
        self.num_events = 0
        self.num_steps = 0
        self.runs: dict[int, list[Run]] = {}
        self._last_event: ev.Event | None = None
        self._touched: set[int] = set()

    def update(self) -> bool:
        """Read on to the end of the trace. True where the trace is not a longer version of what was read before (the
        engine was set back), so that everything had to be read again.
        """
        events = self.trace.events
        changed = self.num_events > len(events) or (
            self.num_events > 0 and events[self.num_events - 1] is not self._last_event
        )
        if changed:
            self._restart()
        self.reads += changed or self.num_events < len(events)
        for i in range(self.num_events, len(events)):
            self._read(events[i])
        self.num_events = len(events)
        self._last_event = events[-1] if events else None
        return changed

    def _read(self, event: ev.Event) -> None:
        self.state.apply(event)
        match event:
            case ev.BlocksAllocated() | ev.BlocksFreed() | ev.BlocksOutOfWindow():
                self._touched.update(event.block_ids)
            case ev.BlockTouched() | ev.BlockCached() | ev.BlockEvicted():
                self._touched.add(event.block_id)
            case ev.RequestForked():  # its parent's blocks have one more owner
                self._touched.update(self.state.tables.get(event.child_id, ()))
            case ev.BlockCopied():
                self._touched.update((event.from_block_id, event.to_block_id))
            case ev.BlocksSwappedOut() | ev.BlocksSwappedIn():
                self._touched.update(event.gpu_block_ids)
            case ev.RegionReserved() | ev.RegionReleased():
                self._touched.update(range(event.start, event.start + event.length))
            case ev.TableEdited():
                self._touched.update((event.old_block_id, event.new_block_id))
            case ev.PoolFound():
                self._touched.update(range(self.state.num_blocks))
            case ev.PrefixCacheReset():
                self._touched.update(self.runs)
            case ev.StepEnded():
                self.num_steps += 1
                self._end_step()

    def _end_step(self) -> None:
        held: dict[int, tuple[str, ...]] = {}  # each block's owners
        for tables in self.state.group_tables:
            for request_id, table in tables.items():
                for block_id in dict.fromkeys(table):
                    held[block_id] = (*held.get(block_id, ()), request_id)
        for request_id, region in self.state.regions.items():
            held |= dict.fromkeys(range(region.start, region.start + region.length), (request_id,))
        for block_id in self._touched:
            owners = held.get(block_id, ())
            owner = owners[0] if owners else KEPT if block_id in self.state.cached else None
            runs = self.runs.setdefault(block_id, [])
            running = runs[-1] if runs and runs[-1].last is None else None
            if running and running.owner == owner and running.owners == owners:
                continue
            if running:
                running.last = self.num_steps - 1
            if owner is not None:
                runs.append(Run(owner, self.num_steps, owners=owners))
        self._touched.clear()


class Tally(History):
    """Reads on like its base; ``values``: a number after each step (of a server: each batch of events)."""

    def __init__(self, trace: Trace, of: Callable[[MemoryState], float]) -> None:
        self._of = of
        super().__init__(trace)

    def _restart(self) -> None:
        super()._restart()
        self.values: list[float] = []

    def _read(self, event: ev.Event) -> None:
        super()._read(event)
        if isinstance(event, ev.StepEnded | ev.BatchReceived):
            self.values.append(self._of(self.state))
