"""Rank 0's side of several ranks: it brings them together, has them all do the same, and notices when one is gone.

What rank 0 itself computes is done in a thread of its own. So Ctrl-C, which reaches the main thread only, never cuts a
step in the middle, where the others would wait for the rest of it; and a rank that died is told of at once, even while
that thread is still waiting for it.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import pickle
import signal
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from multiprocessing import connection
from queue import SimpleQueue
from typing import Any

from pagedlab.errors import PagedlabError
from pagedlab.executor import meeting
from pagedlab.executor.follower import LEAVE, serve
from pagedlab.executor.group import Group
from pagedlab.executor.rank import Rank
from pagedlab.model.split import Split

GRACE = 5.0  # seconds for the others to end by themselves
_living: list[Ranks] = []


class Ranks:
    """``size`` ranks, of which this process is rank 0. Raises PagedlabError where one of them does not come.

    Under torchrun there is one for the process; otherwise each engine that loads a model has its own.
    """

    def __init__(self, size: int, device: str) -> None:
        self.size, self.pid = size, os.getpid()
        self.is_own = meeting.launched() is None  # did this process start the others?
        self.pids = [self.pid]
        self.lost: Future[str] = Future()  # the sentence of an accident
        self.is_over = False
        self.forgotten: deque[tuple[int, ...]] = deque()  # what others need not keep any more: told with the next call
        self.numbers = iter(range(1 << 62))
        self.users: set[int] = set()  # numbers of the engines that are not closed
        self._processes: list[Any] = []
        self._lines: dict[int, connection.Connection] = {}
        self._answers: SimpleQueue[tuple[int, Any]] = SimpleQueue()
        self._calls: SimpleQueue[Any] = SimpleQueue()
        threading.Thread(target=self._work, daemon=True).start()
        threading.Thread(target=self._watch, daemon=True).start()
        _living.append(self)
        try:
            self.run(self._meet, device)
        except BaseException:
            self.end()
            raise

    def _meet(self, device: str) -> None:
        if self.is_own:
            here, found_by = meeting.at_home(self.size)
            self._processes = meeting.start(self.size, found_by)
        else:
            here = meeting.from_environment()
        lines = meeting.wait_for_others(here, self.size, lambda listener: None)
        self._lines = {rank: line for rank, (line, _) in sorted(lines.items())}
        self.pids += [pid for _, (_, pid) in sorted(lines.items())]
        self._send(device)
        place = meeting.device_of_rank(device)
        group = Group(here.store, Split(0, self.size), place, here.address)
        self.rank = Rank(group, place)
        self._collect()

    # ------------------------------------------------------------------------------------------------ what they do

    def do(self, number: int, what: str, *args: Any) -> list[Any]:
        """In every rank, what :meth:`Rank.do` says. What each returned, by rank. Raises PagedlabError where one
        refuses, and where one is lost."""
        message = (number, what, args)
        return self.run(self._do, message)

    def start(self, number: int, what: str, *args: Any) -> Any:
        """The same, and nobody waits for the others: only what rank 0 returned. It looks first whether all is right
        (its ``ready``), and then the others hear of it."""
        return self.run(self._start, (number, what, args))

    def _do(self, message: tuple[int, str, tuple]) -> list[Any]:
        self._send((*message, True, self._dropped()))
        refusal = outcome = None
        try:
            outcome = self.rank.do(*message)
        except PagedlabError as error:
            refusal = error
        except BaseException as error:
            self._fall_out_of_step(error)
            raise
        answers = self._collect()
        if refusal:
            raise refusal
        return [outcome, *answers]

    def _start(self, message: tuple[int, str, tuple]) -> Any:
        number, what, args = message
        were_sent = False

        def ready() -> None:
            nonlocal were_sent
            self._send((number, what, args, False, self._dropped()))
            were_sent = True

        try:
            return self.rank.do(number, what, (*args, ready))
        except BaseException as error:
            if were_sent:
                self._fall_out_of_step(error)
            raise

    def _fall_out_of_step(self, error: BaseException) -> None:
        """The others are in the middle of what failed here. Where it failed because one of them is gone, that is missed
        in a moment."""
        wait((self.lost,), timeout=GRACE / 2)
        self._lose(f"Rank 0 of this engine failed ({type(error).__name__}), and the others with it: make it anew.")

    def _send(self, message: Any) -> None:
        packed = pickle.dumps(message)
        for line in self._lines.values():
            line.send_bytes(packed)

    def _collect(self) -> list[Any]:
        """An answer from each."""
        answers = {rank: answer for rank, answer in (self._answers.get() for _ in self._lines)}
        for rank in self._lines:
            kind, what = answers[rank]
            if kind == "refused":
                raise PagedlabError(f"Rank {rank}: {what}")
        return [answers[rank][1] for rank in self._lines]

    def _dropped(self) -> list[tuple[int, ...]]:
        taken = []
        while self.forgotten:
            taken.append(self.forgotten.popleft())
        for gone in taken:
            self.rank.let_go(*gone)
        return taken

    # ---------------------------------------------------------------------------------------------- the two threads

    def run(self, task: Callable[..., Any], *args: Any) -> Any:
        """``task(*args)`` in the thread that computes, after whatever it has still to do."""
        self.check()
        outcome: Future[Any] = Future()
        self._calls.put((outcome, task, args))
        wait((outcome, self.lost), return_when=FIRST_COMPLETED)
        if outcome.done() and (not self.lost.done() or not outcome.exception()):
            return outcome.result()
        raise PagedlabError(self.lost.result())

    def check(self) -> None:
        """Raises PagedlabError where nothing can be done any more."""
        if os.getpid() != self.pid:
            raise PagedlabError("This engine belongs to the process that made it; make another one here.")
        if self.lost.done():
            raise PagedlabError(self.lost.result())
        if self.is_over:
            raise PagedlabError("This engine was closed, and its other ranks have ended; make another one.")

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            outcome, task, args = call
            try:
                outcome.set_result(task(*args))
            except BaseException as error:
                outcome.set_exception(error)
            del call, outcome, task, args  # or they would live until the next one comes

    def _watch(self) -> None:
        """Until the ranks are over. A rank that was killed is named rather than those that miss it."""
        missing: dict[int, str | None] = {}
        since = 0.0
        while not self.is_over and not self.lost.done():
            lines = {line: rank for rank, line in self._lines.items() if rank not in missing}
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
            for rank, process in enumerate(self._processes, start=1):
                if process.proc.poll() is not None and rank not in missing and rank not in self._lines:
                    missing[rank] = None
            if missing and not since:
                since = time.monotonic()
            if since and time.monotonic() - since > 0.5 and not self.is_over:
                self._lose(self._sentence(missing))

    def _sentence(self, missing: dict[int, str | None]) -> str:
        rank = next((rank for rank, why in missing.items() if why is None), next(iter(missing)))
        why = missing[rank]
        if why is None and self._processes:
            status = self._processes[rank - 1].proc.poll()
            by_signal = status is not None and status < 0
            why = f"killed by {signal.Signals(-status).name}" if by_signal else f"exit status {status}"
        return (
            f"Rank {rank} of this engine ended ({why or 'its connection broke'}), and no rank can go on without the "
            "others: make the engine anew."
        )

    # ------------------------------------------------------------------------------------------------------ the end

    def _lose(self, sentence: str) -> None:
        with contextlib.suppress(Exception):
            self.lost.set_result(sentence)
        self._hang_up()
        self._kill()

    def _hang_up(self) -> None:
        """The others notice, and end."""
        for line in self._lines.values():
            with contextlib.suppress(OSError):
                line.close()

    def _kill(self) -> None:
        for process in self._processes:
            if process.proc.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    process.close(signal.SIGKILL)
                process.proc.wait()

    def end(self) -> None:
        """Let the others go, and wait until those that this process started are gone. Does nothing in a forked child,
        or a second time."""
        if os.getpid() != self.pid or self.is_over:
            return
        self.is_over = True
        if not self.lost.done():
            last: Future[None] = Future()
            self._calls.put((last, self._part, ()))
            wait((last,), timeout=GRACE)
        self._calls.put(None)
        by = time.monotonic() + GRACE
        for process in self._processes:
            with contextlib.suppress(Exception):
                process.proc.wait(max(0.0, by - time.monotonic()))
        self._hang_up()
        self._kill()
        if self in _living:
            _living.remove(self)

    def _part(self) -> None:
        self._send(LEAVE)
        self.rank.group.leave()


def ranks_for(size: int, device: str, check: Callable[[], None]) -> Ranks:
    """New ones, or those that torchrun started, if ``check`` raises nothing. In a rank that is not 0 this does not
    return: it serves, and exits."""
    split = meeting.launched()
    if split is not None and split.size != size:
        raise PagedlabError(
            f"tensor_parallel_size is {size}, and the launcher started {split.size} processes (WORLD_SIZE): give both "
            "the same number."
        )
    check()
    if split is None:
        return Ranks(size, device)
    if split.rank > 0:
        serve()
    return next((ranks for ranks in _living if not ranks.is_own), None) or Ranks(size, device)


def _end_all() -> None:
    for ranks in list(_living):
        ranks.end()


def _hang_up_in_a_forked_child() -> None:
    """A copy of a line would keep it open when this process's parent is gone."""
    for ranks in _living:
        ranks._hang_up()


atexit.register(_end_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_hang_up_in_a_forked_child)
