"""A watched server tells what it does to whoever listens, and waits for nobody.

The notes of a step are sent by the scheduler's own thread, which encodes them and hands them to ZeroMQ; the rest goes
on outside of Python. What a slow reader does not fetch is dropped: it sees a gap in the numbers, and subscribes anew.
Another thread looks now and then for newcomers, who are sent how everything stands.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Iterator
from typing import Any

import zmq

from pagedlab.errors import PagedlabError
from pagedlab.watch.header import header
from pagedlab.watch.hooks import Hooks, Note
from pagedlab.watch.tell import texts
from pagedlab.watch.wire import NOTES, STATE, Frames, encode

logger = logging.getLogger(__name__)
ADDRESS = "tcp://127.0.0.1:5558"  # loopback: whoever may connect reads all prompts
MOST_WAITING = 2_000  # messages for one reader: one for each step, one for each request that comes or is called off
LOOK = 0.05  # seconds between two looks for newcomers


class Publisher:
    """Watches a scheduler and publishes at ``address`` until :meth:`close`. PagedlabError where it cannot listen
    there."""

    def __init__(self, scheduler: Any, address: str | None = None) -> None:
        self.address = address or os.environ.get("PAGEDLAB_EVENTS") or ADDRESS
        self._header = header(scheduler)
        self._piece = texts(_decode(scheduler.vllm_config))
        self._told: set[int] = set()  # tokens whose texts all who listen know
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
        self._hooks = Hooks(scheduler, self._send)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._greet, name="pagedlab-watch", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Watch and listen no more. Nobody is waited for."""
        self._hooks.close()
        self._ended.set()
        self._thread.join()
        self._context.destroy(linger=0)

    def _send(self, notes: list[Note]) -> None:
        """Called under the hooks' lock, so the socket is one thread's at a time."""
        if not notes or not self._listeners or self._ended.is_set():
            return
        with self._or_stop():
            self._sequence += 1
            tokens = {token for note in notes for token in _tokens(note)} - self._told
            self._told |= tokens
            self._out(encode(NOTES, self._sequence, {token: self._piece(token) for token in tokens}, notes))

    def _greet(self) -> None:
        while not self._ended.wait(LOOK):
            with self._hooks.lock, self._or_stop():
                news = []
                while self._socket.poll(0):
                    news.append(self._socket.recv()[:1] == b"\x01")
                self._listeners += sum(1 if came else -1 for came in news)
                if any(news):
                    note = self._hooks.found()
                    self._told |= set(_tokens(note))
                    pieces = {token: self._piece(token) for token in self._told}
                    self._out(encode(STATE, self._sequence, self._header, self._hooks.sources, pieces, note))

    @contextlib.contextmanager
    def _or_stop(self) -> Iterator[None]:
        """A fault of ours ends the watch, and not the server."""
        try:
            yield
        except Exception:
            self._ended.set()
            self._hooks.close()
            logger.exception("pagedlab watches this vLLM no more; it goes on without.")

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
