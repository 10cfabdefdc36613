"""A stream in, a trace out; or a driver that goes on."""

from __future__ import annotations

import math
import time

from pagedlab.attach.follow import Follower
from pagedlab.attach.kv_reader import KVEventReader
from pagedlab.attach.streams import FileOfEvents, Subscription, reader_of
from pagedlab.attach.watched import WatchReader
from pagedlab.errors import PagedlabError, as_path, is_real, whole
from pagedlab.trace import Trace


def attach(
    source: str,
    *,
    topic: str = "",
    max_batches: int | None = None,
    seconds: float | None = None,
    reader: KVEventReader | WatchReader | None = None,
) -> Trace | Follower:
    """Read what a server tells of its memory: a watched vLLM's trace, or the KV events of any; its first message says
    which.

    ``source``: "tcp://host:5557" or "ipc://…" (a server that publishes), or a file of KV events. A file is read to its
    end. A server is read for ``max_batches`` messages, or ``seconds``, or until Ctrl-C where there is a ``reader`` (to
    watch its recorder meanwhile): what has come until then is returned as a trace. Without any of these it is followed
    in the background, and what is returned is a driver for the labs: ``memory_map(attach("tcp://127.0.0.1:5558"))``.

    Raises PagedlabError for an address that cannot be, a missing file, messages that are neither, a server to follow
    that says nothing, and a watched one that has not said in this time how everything stands.
    """
    source = source if isinstance(source, str) else str(as_path(source))
    if max_batches is not None:
        whole(max_batches, "max_batches", 1)
    if seconds is not None and not (is_real(seconds) and seconds >= 0):
        raise PagedlabError(f"seconds is {seconds!r}; it must be a number of at least 0.")
    if "://" in source and max_batches is None and seconds is None and reader is None:
        return Follower(source, topic)
    given = reader is not None
    messages = Subscription(source, topic) if "://" in source else FileOfEvents(source)
    num_batches, end = 0, math.inf if seconds is None else time.monotonic() + seconds
    try:
        while num_batches != max_batches and not messages.ended and time.monotonic() < end:
            if frames := messages.receive():
                reader = reader or reader_of(frames, source)
                reader.take(frames)
                num_batches += 1
                if reader.lost:
                    messages.again()
    except KeyboardInterrupt:
        pass
    finally:
        messages.close()
    if reader is None:
        return KVEventReader(source).trace
    if reader.trace is None and not given:
        raise PagedlabError(f"{source} has not said yet how everything stands. Read more of it, or for longer.")
    return reader.trace
