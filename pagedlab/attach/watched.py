"""What a watched vLLM server tells (``pagedlab.watch.publish``), as a trace."""

from __future__ import annotations

from typing import Any

import msgspec

from pagedlab.errors import PagedlabError
from pagedlab.trace import Recorder, Trace
from pagedlab.trace.events import READABLE
from pagedlab.trace.store import check_header
from pagedlab.watch import wire
from pagedlab.watch.tell import Teller


class WatchReader:
    """Turns a watched server's messages into events, in :attr:`recorder` (None until the server has told how everything
    stands). :attr:`lost`: something was sent that never came here, so all has to be told anew."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.recorder: Recorder | None = None
        self.expected: int | None = None  # the next message's sequence number
        self._missed = 0
        self._texts: dict[int, str] = {}
        self._teller: Teller | None = None
        self._server: Any = None  # its header, which tells one run of it from another

    @property
    def lost(self) -> bool:
        return self._missed > 0

    @property
    def trace(self) -> Trace | None:
        return self.recorder and self.recorder.trace

    def take(self, frames: list[bytes] | wire.Frames) -> None:
        """Take in one message. PagedlabError, and nothing taken in, where it is none; PagedlabError too where it cannot
        follow on those before it."""
        try:
            topic, sequence, payload = wire.decode(frames)
        except (ValueError, msgspec.DecodeError) as error:
            raise PagedlabError(f"{self.source} sent a message that is not a watched server's: {error}.") from None
        try:
            self._follow(topic, sequence, payload)
        except PagedlabError:
            raise
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise PagedlabError(
                f"{self.source} sent a message that cannot follow on those before it ({error!r}). Attach anew; if that "
                "does not help, install the same version of pagedlab on both sides."
            ) from error

    def _follow(self, topic: bytes, sequence: int, payload: list[Any]) -> None:
        if topic == wire.STATE:
            self._begin(sequence, *payload)
        elif self.expected is not None and sequence >= self.expected:
            self._missed += sequence - self.expected
            self.expected = sequence + 1
            if not self._missed:
                self._texts.update(payload[0])
                self._teller.tell(payload[1])

    def _begin(self, sequence: int, header: dict, sources: dict, texts: dict[int, str], note: list) -> None:
        if not isinstance(header, dict) or header.get("schema") not in READABLE:
            raise PagedlabError(
                f"{self.source} is watched by another version of pagedlab. Install the same one on both sides."
            )
        check_header(header, self.source)
        again = self._server is not None and header["date"] != self._server["date"]  # it was started anew
        if self.expected is not None and not again and not self.lost:
            return  # for a newcomer: we know
        self._server, self.expected = header, sequence + 1
        self._texts = dict(texts)
        if self.recorder is None or header["config"] != self.recorder.trace.header["config"]:
            if self.recorder is not None:
                raise PagedlabError(
                    f"The server at {self.source} was started again with another pool: attach to it anew."
                )
            self.recorder = Recorder(header | {"attached": self.source})
        self._teller = Teller(self.recorder, lambda token: self._texts.get(token, f"<{token}>"), sources)
        self._teller.missed, self._missed = self._missed, 0
        self._teller.tell([note])
