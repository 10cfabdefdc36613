"""Where messages come from, and who reads them."""

from __future__ import annotations

from pathlib import Path

import zmq

from pagedlab.attach import wire
from pagedlab.attach.kv_reader import KVEventReader
from pagedlab.attach.watched import WatchReader
from pagedlab.errors import PagedlabError
from pagedlab.watch.wire import NOTES, STATE, Frames


def reader_of(frames: Frames, source: str) -> KVEventReader | WatchReader:
    """What reads a stream that begins with this message: a watched server's, or vLLM's own KV events."""
    return WatchReader(source) if frames[0] in (STATE, NOTES) else KVEventReader(source)


class FileOfEvents:
    """The messages in a file. PagedlabError for one that cannot be read."""

    def __init__(self, path: str) -> None:
        self.path, self.ended = path, False
        try:
            self._file = Path(path).open("rb")
        except (OSError, ValueError) as error:  # ValueError: a zero byte in the name
            raise self._unreadable(error) from None

    def receive(self) -> wire.Frames | None:
        try:
            frames = wire.read_frames(self._file, self.path)
        except OSError as error:
            raise self._unreadable(error) from None
        self.ended = frames is None
        return frames

    def _unreadable(self, error: Exception) -> PagedlabError:
        name, what = self.path or "A file without a name", getattr(error, "strerror", None) or error
        return PagedlabError(
            f"{name} cannot be read: {what}. Give a file of KV events, or a server's address such as "
            "tcp://localhost:5557."
        )

    def close(self) -> None:
        self._file.close()


class Subscription:
    """The messages that a server publishes at ``address``. PagedlabError for what is no address, or no topic."""

    ended = False

    def __init__(self, address: str, topic: str = "") -> None:
        try:
            self._topic = topic.encode()
        except (AttributeError, UnicodeEncodeError):
            raise PagedlabError(f"{topic!r} is no topic; give text, or leave it out to hear everything.") from None
        self._socket = zmq.Context.instance().socket(zmq.SUB)
        try:
            self._socket.connect(address)
        except zmq.ZMQError as error:
            self.close()
            raise PagedlabError(
                f"{address!r} is no address to connect to ({error.strerror}); give one such as tcp://localhost:5557."
            ) from None
        self._socket.subscribe(self._topic)

    def receive(self) -> list[bytes] | None:
        """The next message, or None where none comes soon (so that Ctrl-C and the end are noticed)."""
        return self._socket.recv_multipart() if self._socket.poll(100) else None

    def again(self) -> None:
        """Subscribe anew: a watched server then tells how everything stands."""
        self._socket.unsubscribe(self._topic)
        self._socket.subscribe(self._topic)

    def close(self) -> None:
        self._socket.close(linger=0)
