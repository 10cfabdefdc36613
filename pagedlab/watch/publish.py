"""A watched server tells what it does to whoever listens, and waits for nobody.

The scheduler's thread puts its notes into a queue and goes on. Another thread sends them, about twenty times a second,
and sends newcomers how everything stands. What a slow reader does not fetch is dropped, and so is what the queue has no
room for: readers see a gap in the numbers, and subscribe anew.

Of a server with several engines (``--data-parallel-size``) each has an address of its own, see ``address_of``.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from typing import Any

import zmq

from pagedlab.errors import PagedlabError
from pagedlab.watch.header import header
from pagedlab.watch.hooks import Hooks, Note
from pagedlab.watch.tell import texts
from pagedlab.watch.wire import NOTES, STATE, Frames, encode

logger = logging.getLogger(__name__)
ADDRESS = "tcp://127.0.0.1:5558"  # loopback: whoever may connect reads all prompts
MOST_WAITING = 2_000  # messages, in the queue and for one reader: one a step, one a request that comes or is called off
LOOK = 0.05  # seconds between two looks at the queue, and for newcomers


def address_of(address: str, index: int) -> str:
    """Where engine ``index`` of a server publishes, whose first one does so at ``address``: a port of tcp is counted up
    by the index, and a path or a name gets ``_dp1``, ``_dp2`` … behind it. A port that the system is to choose (``*``,
    ``0``) is left to it.

    Source: vLLM ``distributed/kv_events.py``, ``offset_endpoint_port``, whose rule this is (it has no paths).
    """
    if not index:
        return address
    if not address.startswith("tcp://"):
        return f"{address}_dp{index}"
    host, _, port = address.rpartition(":")
    return f"{host}:{int(port) + index}" if port.isdecimal() and int(port) else address


class Publisher:
    """Watches a scheduler and publishes until :meth:`close`, at ``address`` (default: PAGEDLAB_EVENTS, else ADDRESS),
    or at this engine's own that follows from it. PagedlabError where it cannot listen there."""

    def __init__(self, scheduler: Any, address: str | None = None) -> None:
        index = scheduler.vllm_config.parallel_config.data_parallel_index
        self.address = address_of(address or os.environ.get("PAGEDLAB_EVENTS") or ADDRESS, index)
        self._header = header(scheduler)
        self._piece = texts(_decode(scheduler.vllm_config))
        self._sent: set[int] = set()  # tokens whose texts all who listen know
        self._sequence = 0
        self._listeners = 0
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.XPUB)
        self._socket.set(zmq.LINGER, 0)  # vLLM is killed if it does not end at once
        self._socket.set(zmq.SNDHWM, MOST_WAITING)
        self._socket.set(zmq.XPUB_VERBOSER, 1)  # whoever comes or goes is announced, not the first and last alone
        try:
            self._socket.bind(self.address)
        except zmq.ZMQError as error:
            self._context.destroy(linger=0)
            raise PagedlabError(
                f"The watch cannot listen at {self.address!r} ({error.strerror}). Set PAGEDLAB_EVENTS to an address "
                f"that is free, such as {ADDRESS} or ipc:///tmp/pagedlab."
            ) from None
        self._waiting: deque[tuple[int, list[Note]]] = deque()  # sequence number, notes
        self._ended = threading.Event()
        self._hooks = Hooks(scheduler, self._queue)
        self._thread = threading.Thread(target=self._send, name="pagedlab-watch", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Watch and listen no more. Nobody is waited for."""
        self._hooks.close()
        self._ended.set()
        self._thread.join()
        self._context.destroy(linger=0)

    def _queue(self, notes: list[Note]) -> None:
        """Called by the scheduler's thread."""
        if not notes or not self._listeners or self._ended.is_set():
            return
        self._sequence += 1
        if len(self._waiting) < MOST_WAITING:
            self._waiting.append((self._sequence, notes))

    def _send(self) -> None:
        """The other thread; the socket is its alone. A fault of ours ends the watch, and not the server."""
        try:
            while not self._ended.wait(LOOK):
                self._send_waiting()
                if self._anybody_new():
                    self._send_state()
            self._send_waiting()
        except Exception:
            self._ended.set()
            self._hooks.close()
            logger.exception("pagedlab watches this vLLM no more; it goes on without.")

    def _send_waiting(self) -> None:
        while self._waiting:
            sequence, notes = self._waiting.popleft()
            tokens = {token for note in notes for token in _tokens(note)} - self._sent
            self._sent |= tokens
            self._out(encode(NOTES, sequence, {token: self._piece(token) for token in tokens}, notes))

    def _anybody_new(self) -> bool:
        news = []
        while self._socket.poll(0):
            news.append(self._socket.recv()[:1] == b"\x01")
        self._listeners += sum(1 if came else -1 for came in news)
        return any(news)

    def _send_state(self) -> None:
        with self._hooks.lock:  # what was noted up to here goes first, and what comes next has a higher number
            note, sequence = self._hooks.found(), self._sequence
        self._send_waiting()
        self._sent |= set(_tokens(note))
        pieces = {token: self._piece(token) for token in self._sent}
        self._out(encode(STATE, sequence, self._header, self._hooks.sources, pieces, note))

    def _out(self, frames: Frames) -> None:
        self._socket.send_multipart(frames, flags=zmq.NOBLOCK)


def _tokens(note: Note) -> list[int]:
    """The tokens whose texts a reader needs to tell this note."""
    match note[0]:
        case "arrived":
            return note[2]
        case "update":
            return [token for _, tokens in note[1] for token in tokens]
        case "found":
            return [token for request in note[4] for token in request[1]] + [t for block in note[5] for t in block[4]]
    return []


def _decode(config: Any) -> Any:
    """The model's tokenizer's ``decode``; without one (``--skip-tokenizer-init``) numbers have to do."""
    from vllm.tokenizers import cached_tokenizer_from_config

    tokenizer = None if config.model_config.skip_tokenizer_init else cached_tokenizer_from_config(config.model_config)
    return (lambda ids: f"<{ids[0]}>") if tokenizer is None else tokenizer.decode
