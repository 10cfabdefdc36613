"""Run the command line as a person does: in this process (quick), or in a terminal of its own."""

import io
import os
import pty
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from pagedlab.cli import main


@dataclass
class Done:
    """What a command left behind."""

    status: int
    out: str
    err: str


@pytest.fixture
def run(capsys, monkeypatch) -> Callable[..., Done]:
    """`run("generate", "hi", stdin="...")`: the real `main`, in this process, with no terminal anywhere."""

    def run(*argv: str, stdin: str | bytes = "") -> Done:
        data = stdin if isinstance(stdin, bytes) else stdin.encode()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        with pytest.raises(SystemExit) as stopped:
            main([str(arg) for arg in argv])
        captured = capsys.readouterr()
        return Done(int(stopped.value.code or 0), captured.out, captured.err)

    return run


@pytest.fixture
def run_in_terminal(monkeypatch) -> Callable[..., Done]:
    """`run_in_terminal("demo", typed="\\nq\\n")`: the same at a (pseudo) terminal; `out` holds all that was shown."""
    def run(*argv: str, typed: str = "") -> Done:
        ours, theirs = pty.openpty()
        shown: list[bytes] = []

        def watch() -> None:
            try:
                while data := os.read(ours, 4096):
                    shown.append(data)
            except OSError:  # the other end is closed
                pass

        watcher = threading.Thread(target=watch)
        watcher.start()
        os.write(ours, typed.encode())
        with (
            monkeypatch.context() as patched, open(os.dup(theirs), encoding="utf-8") as keyboard,
            open(os.dup(theirs), "w", encoding="utf-8") as screen, pytest.raises(SystemExit) as stopped,
        ):
            patched.setenv("TERM", "xterm")
            for name, stream in (("stdin", keyboard), ("stdout", screen), ("stderr", screen)):
                patched.setattr(sys, name, stream)
            main([str(arg) for arg in argv])
        os.close(theirs)
        watcher.join(timeout=10)
        os.close(ours)
        return Done(int(stopped.value.code or 0), b"".join(shown).decode().replace("\r\n", "\n"), "")

    return run
