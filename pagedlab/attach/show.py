"""`pagedlab attach`: follow a stream in the terminal."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from pagedlab.attach.kv_reader import KVEventReader
from pagedlab.attach.read import attach
from pagedlab.terminal import printable
from pagedlab.trace import MemoryState, replay
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
    """Print a line for each batch that comes in, then the tree of cached prefixes; save the trace to ``out``.

    Arguments as :func:`pagedlab.attach.attach`; ``max_lines`` limits the tree. Returns 0, or 1 where nothing came.
    """
    reader = KVEventReader(source)
    state = MemoryState.initial(1, 1)
    since = {"stored": 0, "removed": 0}

    def watch(event: ev.Event) -> None:
        state.apply(event)
        if isinstance(event, ev.PrefixStored):
            since["stored"] += 1
        elif isinstance(event, ev.PrefixRemoved):
            since["removed"] += 1
        elif isinstance(event, ev.PrefixCacheReset):
            print("all blocks cleared", flush=True)
        elif isinstance(event, ev.BatchReceived):
            missed = f" ({event.num_missed} batches before it were missed)" if event.num_missed else ""
            print(
                f"batch {event.sequence}: {since['stored']} blocks stored, {since['removed']} removed; "
                f"{len(state.prefixes)} prefixes cached{missed}",
                flush=True,
            )
            since.update(stored=0, removed=0)

    reader.recorder.subscribe(watch)
    started = time.monotonic()
    if "://" in source:
        print(printable(f"Waiting for KV events from {source}; Ctrl-C stops."), flush=True)
    trace = attach(source, topic=topic, max_batches=max_batches, seconds=seconds, reader=reader)
    if not trace.events:
        print(printable(_nothing(source, topic, time.monotonic() - started)), file=sys.stderr)
        return 1
    print(tree_text(replay(trace), max_lines))
    if reader.num_skipped:
        print(f"{reader.num_skipped} events of other media or groups of layers were left out.")
    if out is not None:
        print(printable(f"Saved: {save(trace, out)}"))
    return 0


def _nothing(source: str, topic: str, seconds: float) -> str:
    if "://" not in source:
        return f"pagedlab: {source} holds no KV events; nothing was saved."
    wanted = f", or publishes on another topic than {topic!r}" if topic else ""
    return (
        f"pagedlab: nothing came from {source} in {seconds:.1f} seconds, and nothing was saved. Either no server "
        f"publishes there{wanted}, or it had nothing to tell: start it with --kv-events-config "
        "'{\"enable_kv_cache_events\": true}' and send it a prompt meanwhile."
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
