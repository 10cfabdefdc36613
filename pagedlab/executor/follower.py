"""A rank other than 0: it does what rank 0 sends it, and ends with it.

``python -m pagedlab.executor.follower`` is what rank 0 starts; under torchrun ``LLM(...)`` comes here by itself.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any, NoReturn

from pagedlab.errors import PagedlabError
from pagedlab.executor.group import Group
from pagedlab.executor.meeting import device_of_rank, from_environment, launched, line_to_rank_0
from pagedlab.executor.rank import Rank

LEAVE = "leave"


def serve() -> NoReturn:
    """Until rank 0 says that it is over (SystemExit, status 0), or is gone (the process ends at once, status 1)."""
    split = launched()
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # rank 0 decides what an interrupt ends
    here = from_environment()
    line = line_to_rank_0(here, split.rank)
    calls: SimpleQueue[Any] = SimpleQueue()
    threading.Thread(target=_listen, args=(line, calls), daemon=True).start()
    try:
        _do_all(Rank, calls, line, here, split)
    except Exception as error:  # the others wait for this rank in vain: say why, and end
        _say(line, ("failed", f"{type(error).__name__}: {error}".splitlines()[0]))
        sys.stdout.flush()
        os._exit(1)
    sys.exit(0)


def _do_all(kind: type[Rank], calls: SimpleQueue[Any], line: Connection, here: Any, split: Any) -> None:
    device = device_of_rank(calls.get())
    group = Group(here.store, split, device, here.address)
    _say(line, ("done", os.getpid()))
    rank = kind(group, device)
    while (call := calls.get()) != LEAVE:
        number, what, args, is_answered, forgotten = call
        for other, *dropped in forgotten:
            rank.let_go(other, *dropped)
        try:
            outcome = ("done", rank.do(number, what, args))
        except PagedlabError as error:
            if not is_answered:
                raise
            outcome = ("refused", str(error))
        if is_answered:
            _say(line, outcome)
    group.leave()


def _listen(line: Connection, calls: SimpleQueue[Any]) -> None:
    """Hears at any time that rank 0 is gone, also while this rank waits for it elsewhere."""
    try:
        while True:
            calls.put(call := pickle.loads(line.recv_bytes()))
            if call == LEAVE:
                return
    except (EOFError, OSError):
        os._exit(1)


def _say(line: Connection, message: tuple[str, Any]) -> None:
    try:
        line.send_bytes(pickle.dumps(message))  # a tensor as its numbers: `send` would hand over shared memory
    except OSError:  # rank 0 is gone
        os._exit(1)


if __name__ == "__main__":
    serve()
