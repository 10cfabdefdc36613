"""The other ranks, as rank 0 has them: processes, if it started them, and a line to each; and is one of them gone?"""

from __future__ import annotations

import contextlib
import pickle
import signal
import threading
import time
from concurrent.futures import Future, InvalidStateError
from multiprocessing import connection
from queue import SimpleQueue
from typing import Any

from pagedlab.errors import PagedlabError
from pagedlab.executor import meeting

UNTIL_ALL_ARE_HEARD = 0.5  # seconds: ranks that miss a killed one may say so before its line breaks


class Others:
    """Ranks 1 and up. ``lost`` has, after an accident, the sentence that says what happened.

    A thread listens to all of them at all times, so that one that died is missed even while nobody waits for it.
    """

    def __init__(self) -> None:
        self.processes: list[Any] = []  # by rank, from 1 on; none under torchrun
        self.lines: dict[int, connection.Connection] = {}
        self.lost: Future[str] = Future()
        self.is_over = False  # nobody is missed any more
        self._is_watched = True
        self._answers: SimpleQueue[tuple[int, Any]] = SimpleQueue()
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._watcher.start()

    def meet(self, here: meeting.Store, size: int) -> list[int]:
        """Wait until all have come. Their process ids, by rank."""
        came = sorted(meeting.wait_for_others(here, size).items())
        self.lines = {rank: line for rank, (line, _) in came}
        return [pid for _, (_, pid) in came]

    def send(self, message: Any) -> None:
        """To each. One that is gone hears nothing, and is missed in a moment."""
        packed = pickle.dumps(message)
        for line in self.lines.values():
            with contextlib.suppress(OSError):
                line.send_bytes(packed)

    def collect(self) -> list[Any]:
        """An answer from each. ConnectionError where one is lost."""
        answers = {rank: answer for rank, answer in (self._answers.get() for _ in self.lines)}
        for rank in self.lines:
            kind, what = answers[rank]
            if kind == "failed":
                raise ConnectionError(f"rank {rank} is gone")
            if kind == "refused":
                raise PagedlabError(f"Rank {rank}: {what}")
        return [answers[rank][1] for rank in self.lines]

    def _watch(self) -> None:
        """Until :meth:`stop_watching`: while the ranks end, a call may still wait for its answers. A rank that was
        killed is named rather than those that miss it."""
        missing: dict[int, str | None] = {}
        since = 0.0
        while self._is_watched and not self.lost.done():
            lines = {line: rank for rank, line in self.lines.items() if rank not in missing}
            if lines:
                ready = connection.wait(lines, timeout=0.1)
            else:
                ready = time.sleep(0.1) or []
            for line in ready:
                rank = lines[line]
                try:
                    answer = pickle.loads(line.recv_bytes())
                except Exception:  # EOFError, OSError, and what cannot be read: nobody else would wake who waits
                    answer = ("failed", None)
                if answer[0] == "failed":
                    missing[rank] = answer[1]
                else:
                    self._answers.put((rank, answer))
            for rank, process in enumerate(self.processes, start=1):
                if process.proc.poll() is not None and rank not in missing and rank not in self.lines:
                    missing[rank] = None
            if missing and not since:
                since = time.monotonic()
            if since and time.monotonic() - since > UNTIL_ALL_ARE_HEARD and not self.is_over:
                self.lose(self._sentence(missing))

    def _sentence(self, missing: dict[int, str | None]) -> str:
        rank = next((rank for rank, why in missing.items() if why is None), next(iter(missing)))
        why = missing[rank]
        if why is None and self.processes:
            status = self.processes[rank - 1].proc.poll()
            by_signal = status is not None and status < 0
            why = f"killed by {_name(-status)}" if by_signal else f"exit status {status}"
        return (
            f"Rank {rank} of this engine ended ({why or 'its connection broke'}), and no rank can go on without the "
            "others: make the engine anew."
        )

    def stop_watching(self) -> None:
        self._is_watched = False
        if threading.current_thread() is not self._watcher:
            self._watcher.join(1)

    def lose(self, sentence: str) -> None:
        with contextlib.suppress(InvalidStateError):
            self.lost.set_result(sentence)
        self.hang_up()
        self.kill()
        for rank in self.lines:  # whoever waits for an answer
            self._answers.put((rank, ("failed", None)))

    def hang_up(self) -> None:
        """The others notice, and end."""
        for line in self.lines.values():
            with contextlib.suppress(OSError):
                line.close()

    def kill(self) -> None:
        for process in self.processes:
            if process.proc.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    process.close(signal.SIGKILL)
                process.proc.wait()


def _name(number: int) -> str:
    """Not every signal has one: of the real-time ones two have."""
    return next((known.name for known in signal.Signals if known == number), f"signal {number}")
