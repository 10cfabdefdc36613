"""`pagedlab attach`: follow a stream in the terminal."""

from __future__ import annotations

import sys
import time
from collections import Counter
from pathlib import Path

from pagedlab.attach.kv_reader import KVEventReader
from pagedlab.attach.read import attach
from pagedlab.attach.streams import reader_of
from pagedlab.attach.watched import WatchReader
from pagedlab.terminal import printable
from pagedlab.trace import MemoryState, Trace
from pagedlab.trace import events as ev
from pagedlab.trace.store import save


def run(
    source: str,
    *,
    out: Path | None = None,
    topic: str = "",
    max_batches: int | None = None,
    seconds: float | None = None,
    max_lines: int = 40,
) -> int:
    """Print a line for each step (of KV events: each batch) that comes in, and the tree of cached prefixes in the end;
    save the trace to ``out``.

    Arguments as :func:`pagedlab.attach.attach`; ``max_lines`` limits the tree. Returns 0, or 1 where nothing came.
    """
    screen = Screen()
    started = time.monotonic()
    if "://" in source:
        print(printable(f"Waiting for events from {source}; Ctrl-C stops."), flush=True)
    reader = Printing(source, screen)
    attach(source, topic=topic, max_batches=max_batches, seconds=seconds, reader=reader)
    if reader.trace is None or not reader.trace.events:
        print(printable(_nothing(source, topic, time.monotonic() - started)), file=sys.stderr)
        return 1
    print(tree_text(screen.state, max_lines))
    if reader.num_skipped:
        print(f"{reader.num_skipped} events of other media or groups of layers were left out.")
    trace = reader.trace
    if out is not None:
        print(printable(f"Saved: {save(trace, out)}"))
    return 0


class Printing:
    """The reader that the first message asks for; ``screen`` sees what it reads."""

    def __init__(self, source: str, screen: Screen) -> None:
        self._source, self._screen = source, screen
        self._reader: KVEventReader | WatchReader | None = None

    @property
    def trace(self) -> Trace | None:
        return self._reader and self._reader.trace

    @property
    def lost(self) -> bool:
        return self._reader.lost

    @property
    def num_skipped(self) -> int:
        return getattr(self._reader, "num_skipped", 0)

    def take(self, frames: list[bytes]) -> None:
        self._reader = self._reader or reader_of(frames, self._source)
        self._reader.take(frames)
        if self._reader.trace is not None:
            self._screen.catch_up(self._reader.trace)


class Screen:
    """What is printed of a trace as it grows, and memory as it is by now."""

    def __init__(self) -> None:
        self.state = MemoryState.initial(1, 1)
        self._num_events = 0
        self._since: Counter[str] = Counter()

    def catch_up(self, trace: Trace) -> None:
        if not self._num_events:
            self.state = MemoryState.of(trace.header["config"])
        for event in trace.events[self._num_events :]:
            self.state.apply(event)
            self._since[event.kind] += 1
            if line := self._line(event):
                print(printable(line), flush=True)
                self._since.clear()
        self._num_events = len(trace.events)

    def _line(self, event: ev.Event) -> str:
        state, since = self.state, self._since
        match event:
            case ev.PrefixCacheReset():
                return "all blocks cleared"
            case ev.BatchReceived():
                missed = f" ({event.num_missed} batches before it were missed)" if event.num_missed else ""
                return (
                    f"batch {event.sequence}: {since['prefix_stored']} blocks stored, {since['prefix_removed']} "
                    f"removed; {len(state.prefixes)} prefixes cached{missed}"
                )
            case ev.PoolFound():
                missed = f", after {event.num_missed} messages that never came" if event.num_missed else ""
                return f"found at step {event.step}{missed}: {self._pool()}"
            case ev.StepEnded():
                preempted = f"; {since['request_preempted']} preempted" if since["request_preempted"] else ""
                return (
                    f"step {event.step}: {event.num_tokens} tokens, {len(state.running)} running, "
                    f"{len(state.waiting)} waiting, {self._pool()}{preempted}"
                )
        return ""

    def _pool(self) -> str:
        """The null block is nobody's, and never free."""
        usable, state = self.state.num_blocks - 1, self.state
        return f"{usable - len(state.free)} of {usable} blocks in use, {len(state.cached)} can be found"


def _nothing(source: str, topic: str, seconds: float) -> str:
    if "://" not in source:
        return f"pagedlab: {source} holds no KV events; nothing was saved."
    wanted = f", or publishes on another topic than {topic!r}" if topic else ""
    return (
        f"pagedlab: nothing came from {source} in {seconds:.1f} seconds, and nothing was saved. Either no server "
        f"publishes there{wanted}, or it had nothing to tell: start it with --scheduler-cls "
        "pagedlab.watch.WatchedScheduler, or with --kv-events-config '{\"enable_kv_cache_events\": true}', and send it "
        "a prompt meanwhile."
    )


def tree_text(state: MemoryState, max_lines: int) -> str:
    """The tree of cached prefixes: a line for each block, behind its parent, with its tokens."""
    children = state.prefix_children()
    if not children:
        return "No prefix is cached."
    lines: list[str] = []
    starts = [parent for parent in children if parent is None or parent not in state.prefixes]
    waiting = [(block_hash, 0, parent) for parent in starts for block_hash in children[parent]][::-1]
    while waiting:
        block_hash, depth, unknown = waiting.pop()
        prefix = state.prefixes[block_hash]
        before = "… " if unknown is not None else ""  # the block before it is not known here
        copies = f"  ×{prefix.copies}" if prefix.copies > 1 else ""
        lines.append(f"{'  ' * depth}{before}{' '.join(map(str, prefix.token_ids))}{copies}")
        waiting += [(child, depth + 1, None) for child in reversed(children.get(block_hash, []))]
    left = len(lines) - max_lines
    return "\n".join(lines[:max_lines] + ([f"and {left} blocks more"] if left > 0 else []))
