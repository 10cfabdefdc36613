"""Our engine's prefix cache, told to others as vLLM tells its own."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import zmq

from pagedlab.attach import wire
from pagedlab.errors import PagedlabError, as_path
from pagedlab.trace import events as ev

# vLLM's words for the one pool and the one group of layers that we have
MEDIUM, GROUP, KIND = "GPU", 0, "full_attention"


class KVEventPublisher:
    """Publishes what a recording engine's cache does, one batch a step.

    ``endpoint``: "tcp://*:5557" (vLLM's default) opens a port on all interfaces and "ipc://…" a local socket; with
    a host name in place of ``*`` it connects to a collector; anything else is the path of a file. Who subscribes later
    has missed what came before, as with a vLLM that has no ``replay_endpoint``.

        publisher = KVEventPublisher("tcp://*:5557")
        llm.recorder.subscribe(publisher)       # an engine made with LLM(..., record=True)
        ...
        publisher.close()

    Raises PagedlabError where the endpoint cannot be opened.
    """

    def __init__(self, endpoint: str = "tcp://*:5557", *, topic: str = "") -> None:
        endpoint = endpoint if isinstance(endpoint, str) else str(as_path(endpoint))
        self.topic = topic
        self.sequence = 0
        self._events: list[Any] = []
        self._last: str | None = None  # hash of the block stored just now, while nothing else has happened since
        self._socket = self._file = None
        try:
            if "://" in endpoint:
                self._socket = zmq.Context.instance().socket(zmq.PUB)
                listens = "*" in endpoint or "::" in endpoint or endpoint.startswith(("ipc://", "inproc://"))
                (self._socket.bind if listens else self._socket.connect)(endpoint)
            else:
                self._file = Path(endpoint).open("wb")
        except (OSError, zmq.ZMQError) as error:
            if self._socket:
                self._socket.close(linger=0)
            raise PagedlabError(f"KV events cannot be published at {endpoint}: {error.strerror or error}.") from None

    @property
    def bound_endpoint(self) -> str:
        """Where the socket is really bound: with port 0 the system chooses one."""
        return self._socket.getsockopt_string(zmq.LAST_ENDPOINT)

    def __call__(self, event: ev.Event) -> None:
        """Take in one event of the engine's trace (``Recorder.subscribe`` calls this)."""
        last, self._last = self._last, None
        if isinstance(event, ev.BlockCached):
            self._stored(event, follows=last is not None and event.parent_hash == last)
            self._last = event.block_hash
        elif isinstance(event, ev.BlockEvicted):
            self._events.append(wire.BlockRemoved([_short(event.block_hash)], MEDIUM, GROUP))
        elif isinstance(event, ev.PrefixCacheReset):
            self._events.append(wire.AllBlocksCleared())
        elif isinstance(event, ev.StepEnded):
            self.flush()

    def _stored(self, event: ev.BlockCached, follows: bool) -> None:
        """Blocks that were cached in one go make one event."""
        if follows:
            stored = self._events[-1]
            stored.block_hashes.append(_short(event.block_hash))
            stored.token_ids.extend(event.token_ids)
            stored.extra_keys.append(None)
        else:
            parent = _short(event.parent_hash) if event.parent_hash is not None else None
            self._events.append(
                wire.BlockStored(
                    [_short(event.block_hash)],
                    parent,
                    list(event.token_ids),
                    len(event.token_ids),
                    None,
                    MEDIUM,
                    None,
                    [None],
                    GROUP,
                    KIND,
                )
            )

    def flush(self) -> None:
        """Send what has gathered; nothing where the cache did not change."""
        if self._events:
            frames = wire.encode(self.sequence, wire.EventBatch(time.time(), self._events, 0), self.topic)
            if self._socket:
                self._socket.send_multipart(frames)
            else:
                wire.write_frames(self._file, frames)
            self.sequence += 1
            self._events = []
        self._last = None

    def close(self) -> None:
        """Send what is left, and close."""
        self.flush()
        if self._socket:
            self._socket.close(linger=1000)
        else:
            self._file.close()


def _short(block_hash: str) -> int:
    """The last 64 bits of a hash: what vLLM publishes unless VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES=0."""
    return int(block_hash[-16:], 16)
