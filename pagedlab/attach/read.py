"""A stream of KV events in, a trace out."""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterator
from pathlib import Path

import zmq

from pagedlab import __version__
from pagedlab.attach import wire
from pagedlab.errors import PagedlabError, as_path
from pagedlab.trace import Recorder, Trace
from pagedlab.trace import events as ev
from pagedlab.trace.recorder import source_of


class KVEventReader:
    """Turns a server's messages into events of a trace, in :attr:`recorder`.

    Only what lies in the GPU's pool for group 0 is taken in (a model with full attention alone has no other group, and
    blocks moved elsewhere are another cache); :attr:`num_skipped` counts the rest.
    """

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


def attach(
    source: str,
    *,
    topic: str = "",
    max_batches: int | None = None,
    seconds: float | None = None,
    reader: KVEventReader | None = None,
) -> Trace:
    """Read a stream of KV events to its end, and return it as a trace.

    ``source``: "tcp://host:5557" or "ipc://…" (a server that publishes), or a file of such messages. A file ends by
    itself; a server does not, so stop after ``max_batches``, after ``seconds``, or with Ctrl-C: what has come until
    then is returned. Give a ``reader`` to watch its recorder meanwhile.

    Raises PagedlabError for an address that cannot be, a missing file, and messages that are no KV events.
    """
    source = source if isinstance(source, str) else str(as_path(source))
    reader = reader or KVEventReader(source)
    messages = _from_socket(source, topic, seconds) if "://" in source else _from_file(source)
    num_batches = 0
    try:
        while num_batches != max_batches:
            frames = next(messages, None)
            if frames is None:
                break
            reader.take(frames)
            num_batches += 1
    except KeyboardInterrupt:
        pass
    finally:
        messages.close()
    return reader.trace


def _from_file(path: str) -> Iterator[wire.Frames]:
    try:
        with Path(path).open("rb") as file:
            while frames := wire.read_frames(file, path):
                yield frames
    except OSError as error:
        raise PagedlabError(
            f"{path} cannot be read: {error.strerror or error}. Give a file of KV events, or a server's address "
            "such as tcp://localhost:5557."
        ) from None


def _from_socket(address: str, topic: str, seconds: float | None) -> Iterator[list[bytes]]:
    socket = zmq.Context.instance().socket(zmq.SUB)
    try:
        try:
            socket.connect(address)
        except zmq.ZMQError as error:
            raise PagedlabError(
                f"{address!r} is no address to connect to ({error.strerror}); give one such as tcp://localhost:5557."
            ) from None
        socket.subscribe(topic)
        end = time.monotonic() + seconds if seconds is not None else None
        while end is None or time.monotonic() < end:
            if socket.poll(100):  # milliseconds; short, so that Ctrl-C and the end are noticed
                yield socket.recv_multipart()
    finally:
        socket.close(linger=0)


def _text(block_hash: bytes | int) -> str:
    """A hash as text; servers may be set to publish 64-bit numbers in place of 32 bytes."""
    return block_hash.hex() if isinstance(block_hash, bytes) else f"{block_hash:016x}"
