"""A server elsewhere under a lab's cursor, as it serves."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
import weakref

from pagedlab.attach.kv_reader import KVEventReader
from pagedlab.attach.streams import Subscription, reader_of
from pagedlab.attach.watched import WatchReader
from pagedlab.errors import PagedlabError
from pagedlab.trace import Trace, TraceDriver

PATIENCE = 10.0  # seconds for a server's first word
MOST_WAITING = 100_000  # messages that nobody has looked at yet; those after them are lost, and that is said


class Follower(TraceDriver):
    """A cursor over a server's run, which goes on whether anybody looks or not. ``moves``: it grows by itself.

    Raises PagedlabError where nothing comes within ``patience`` seconds.
    """

    moves = True

    def __init__(self, source: str, topic: str = "", patience: float = PATIENCE) -> None:
        self.source = source
        self._frames: queue.Queue[list[bytes]] = queue.Queue(MOST_WAITING)
        self._again, self._ended = threading.Event(), threading.Event()
        self._reader: KVEventReader | WatchReader | None = None
        arguments = (Subscription(source, topic), self._frames, self._again, self._ended)
        threading.Thread(target=_listen, args=arguments, name="pagedlab-attach", daemon=True).start()
        weakref.finalize(self, self._ended.set)
        try:
            until = time.monotonic() + patience
            while self._reader is None or self._reader.trace is None:
                try:
                    self._take(self._frames.get(timeout=max(0.0, until - time.monotonic())))
                except queue.Empty:
                    raise PagedlabError(
                        f"Nothing came from {source} within {patience:g} seconds. Start a vLLM there with "
                        "--scheduler-cls pagedlab.watch.WatchedScheduler, or one that publishes KV events, and send "
                        "it a prompt."
                    ) from None
        except BaseException:
            self.close()
            raise
        super().__init__(self._reader.trace)
        self.position = self.num_steps

    def _take(self, frames: list[bytes]) -> None:
        self._reader = self._reader or reader_of(frames, self.source)
        self._reader.take(frames)
        if self._reader.lost:
            self._again.set()

    @property
    def trace(self) -> Trace:
        """With all that has come by now."""
        for _ in range(self._frames.qsize()):
            self._take(self._frames.get_nowait())
        return self._reader.trace

    def close(self) -> None:
        """Listen no more; what has come stays."""
        self._ended.set()


def _listen(messages: Subscription, frames: queue.Queue, again: threading.Event, ended: threading.Event) -> None:
    """Not a method: a thread that knew its follower would keep it alive."""
    while not ended.is_set():
        if again.is_set():
            again.clear()
            messages.again()
        if message := messages.receive():
            with contextlib.suppress(queue.Full):  # the gap in the numbers will be seen
                frames.put_nowait(message)
    messages.close()
