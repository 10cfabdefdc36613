"""A stream of vLLM's KV events in, a trace out."""

from __future__ import annotations

import datetime

from pagedlab import __version__
from pagedlab.attach import wire
from pagedlab.trace import Recorder, Trace
from pagedlab.trace import events as ev
from pagedlab.trace.recorder import source_of


class KVEventReader:
    """Turns a server's messages into events of a trace, in :attr:`recorder`.

    Only what lies in the GPU's pool for group 0 is taken in (a model with full attention alone has no other group, and
    blocks moved elsewhere are another cache); :attr:`num_skipped` counts the rest.
    """

    lost = False  # what was missed is said in each batch, and the next one is told all the same

    def __init__(self, source: str) -> None:
        self.source = source
        self.num_skipped = 0
        self.expected: int | None = None  # the next message's sequence number
        self.recorder = Recorder(
            {
                "schema": ev.SCHEMA_VERSION,
                "pagedlab": __version__,
                "torch": None,
                "triton": None,
                "device": "unknown",
                "compute_capability": None,
                "dtype": None,
                "model": None,
                "seed": None,
                "live": True,
                "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
                # The pool that we see is empty but for the null block: no block ids come over the wire.
                "config": {"num_blocks": 1, "block_size": 1},
                "attached": source,
            }
        )

    @property
    def trace(self) -> Trace:
        return self.recorder.trace

    def take(self, frames: list[bytes] | wire.Frames) -> None:
        """Take in one message. Raises PagedlabError, and takes in nothing, where it is none."""
        sequence, batch = wire.decode(frames, self.source)
        source = source_of(self.take)
        num_missed = sequence if self.expected is None else sequence - self.expected
        if num_missed < 0:  # the server counts from the start again: it is a new one, and its cache is empty
            num_missed = sequence
            self.recorder.emit(ev.PrefixCacheReset(source=source))
        self.expected = sequence + 1
        for event in batch.events:
            if isinstance(event, wire.AllBlocksCleared):
                self.recorder.emit(ev.PrefixCacheReset(source=source))
            elif event.medium not in (None, "GPU") or event.group_idx not in (None, 0):
                self.num_skipped += 1
            elif isinstance(event, wire.BlockRemoved):
                for block_hash in event.block_hashes:
                    self.recorder.emit(ev.PrefixRemoved(block_hash=_text(block_hash), source=source))
            else:
                self._stored(event, source)
        self.recorder.emit(
            ev.BatchReceived(sequence=sequence, timestamp=batch.ts, num_missed=num_missed, source=source)
        )

    def _stored(self, event: wire.BlockStored, source: str) -> None:
        size = event.block_size
        self.trace.header["config"]["block_size"] = size
        parent = _text(event.parent_block_hash) if event.parent_block_hash is not None else None
        for i, block_hash in enumerate(event.block_hashes):
            name = _text(block_hash)
            self.recorder.emit(
                ev.PrefixStored(
                    block_hash=name,
                    parent_hash=parent,
                    token_ids=tuple(event.token_ids[i * size : (i + 1) * size]),
                    source=source,
                )
            )
            parent = name


def _text(block_hash: bytes | int) -> str:
    """A hash as text; servers may be set to publish 64-bit numbers in place of 32 bytes."""
    return block_hash.hex() if isinstance(block_hash, bytes) else f"{block_hash:016x}"
