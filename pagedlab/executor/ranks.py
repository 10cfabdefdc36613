"""Rank 0's side of several ranks: it brings them together, has them all do the same, and notices when one is gone.

What rank 0 itself computes is done in a thread of its own. So Ctrl-C, which reaches the main thread only, never cuts a
step in the middle, where the others would wait for the rest of it; and a rank that died is told of at once, even while
that thread is still waiting for it.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import subprocess
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from queue import SimpleQueue
from typing import Any

from pagedlab.errors import PagedlabError
from pagedlab.executor import meeting
from pagedlab.executor.follower import LEAVE, serve
from pagedlab.executor.group import Group
from pagedlab.executor.others import Others
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
        self.others = Others()
        self.is_over = False
        self._ending = threading.Lock()
        self.forgotten: deque[tuple[int, ...]] = deque()  # what others need not keep any more: told with the next call
        self.numbers = iter(range(1 << 62))
        self.users: set[int] = set()  # numbers of the engines that are not closed
        self._calls: SimpleQueue[Any] = SimpleQueue()
        self._worker = threading.Thread(target=self._work, daemon=True)
        self._worker.start()
        _living.append(self)
        try:
            self.run(self._meet, device)
        except BaseException:
            self.end()
            raise

    def _meet(self, device: str) -> None:
        if self.is_own:
            here, found_by = meeting.at_home(self.size)
            self.others.processes = meeting.start(self.size, found_by)
        else:
            here = meeting.from_environment()
        self.pids += self.others.meet(here, self.size)
        self.others.send(device)
        place = meeting.device_of_rank(device)
        group = Group(here.store, Split(0, self.size), place, here.address)
        self.rank = Rank(group, place)
        self.others.collect()

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
        self.others.send((*message, True, self._dropped()))
        refusal = outcome = None
        try:
            outcome = self.rank.do(*message)
        except PagedlabError as error:
            refusal = error
        except BaseException as error:
            self._fall_out_of_step(error)
            raise
        try:
            answers = self.others.collect()
        finally:
            if refusal:  # of a wrong value; the others refuse it too
                raise refusal from None
        return [outcome, *answers]

    def _start(self, message: tuple[int, str, tuple]) -> Any:
        number, what, args = message
        were_sent = False

        def ready() -> None:
            nonlocal were_sent
            self.others.send((number, what, args, False, self._dropped()))
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
        wait((self.others.lost,), timeout=GRACE / 2)
        self.others.lose(
            f"Rank 0 of this engine failed ({type(error).__name__}), and the others with it: make it anew."
        )

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
        wait((outcome, self.others.lost), return_when=FIRST_COMPLETED)
        if outcome.done() and (not self.others.lost.done() or not outcome.exception()):
            return outcome.result()
        raise PagedlabError(self.others.lost.result())

    def check(self) -> None:
        """Raises PagedlabError where nothing can be done any more."""
        if os.getpid() != self.pid:
            raise PagedlabError("This engine belongs to the process that made it; make another one here.")
        if self.others.lost.done():
            raise PagedlabError(self.others.lost.result())
        if self.is_over:
            raise PagedlabError("This engine was closed, and its other ranks have ended; make another one.")

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            outcome, task, args = call
            try:
                outcome.set_result(task(*args))
            except BaseException as error:
                traceback.clear_frames(error.__traceback__)  # they may hold what torch's threads would outlive
                outcome.set_exception(error)
            del call, outcome, task, args  # or they would live until the next one comes

    # ------------------------------------------------------------------------------------------------------ the end

    def end(self) -> None:
        """Let the others go, and wait until those that this process started are gone: also whoever comes while another
        thread does it, since Python must not end before. Does nothing in a forked child, or once it is done."""
        if os.getpid() != self.pid:
            return
        with self._ending:
            if self in _living:
                self._end()
                _living.remove(self)

    def _end(self) -> None:
        self.is_over = self.others.is_over = True  # from here on nobody is missed
        last: Future[None] = Future()
        self._calls.put((last, self._part, ()))
        self._calls.put(None)
        # After an accident too: what the thread waited for has failed by then. Python ends a thread that is left by
        # unwinding it, which C++ code in it takes for a fault of its own, and aborts.
        if threading.current_thread() is not self._worker:
            self._worker.join(GRACE)
        self.others.stop_watching()
        by = time.monotonic() + GRACE * last.done()
        for process in self.others.processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.proc.wait(max(0.0, by - time.monotonic()))
        self.others.hang_up()
        self.others.kill()

    def _part(self) -> None:
        self.others.send(LEAVE)
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
        ranks.others.hang_up()


atexit.register(_end_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_hang_up_in_a_forked_child)
