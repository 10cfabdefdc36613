"""Runs a learner's program so that it ends when it should, and takes nothing with it.

Between the grader and the learner's code stands a *guard* (``guard.py``), a program of its own. It starts the
command in a new session with limits on it, watches what it and all its descendants use, and kills them all when the
command ends, when the grader says so or goes away, or when a limit is passed. The learner's parent process is the
guard, so code that kills its parent ends nothing but itself. On Linux the command can write only into its own
folder, and signal only what it has started itself (``confine.py``).

What this is not: a sandbox. The code runs as the same user: it can read that user's files and reach the network. On
macOS it can also write and delete them, and kill processes that it looks for; a program that detaches itself (a new
session, then the death of its parent) is not found again, and memory is limited by the guard's watching alone.
Grade hostile code in a container.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

GUARD = Path(__file__).with_name("guard.py")
# What a learner's program gets to see of our environment: no tokens of a CI, no start-up files, no options for pytest.
PASSED_ON = (
    "PATH",
    "HOME",
    "LANG",
    "LC_ALL",
    "TZ",
    "XDG_CACHE_HOME",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "LD_LIBRARY_PATH",
    "DYLD_LIBRARY_PATH",
    "PYTHONPATH",
    "HF_HOME",
)
PASSED_ON_PREFIXES = ("CUDA_", "NVIDIA_", "TRITON_", "PAGEDLAB_")


@dataclass(frozen=True)
class Limits:
    """For the command and all that it starts, together. ``address_space``: of each process (None: not limited).

    ``confine``: writes go into its own folder only, where the operating system can see to that.
    """

    seconds: float
    memory_bytes: int = 4 << 30
    address_space: int | None = 4 << 30
    processes: int = 64
    file_bytes: int = 256 << 20
    confine: bool = True


@dataclass(frozen=True)
class Ending:
    """How it ended. ``reason``: "" for the command's own end, else "time", "memory", "processes" or "stopped"."""

    exit_code: int | None  # negative: the signal that killed it; None: not known
    reason: str = ""

    def __str__(self) -> str:
        said = {
            "time": "it took too long",
            "memory": "it used too much memory",
            "processes": "it started too many processes",
            "stopped": "it was stopped",
        }
        if self.reason:
            return said[self.reason]
        if self.exit_code is None:
            return "it ended its own guard"
        if self.exit_code < 0:
            return f"it was killed by {signal.Signals(-self.exit_code).name}"
        return f"it ended with exit status {self.exit_code}"


class Contained:
    """A running command under its guard. Use as a context: leaving it ends the command and all that it started."""

    def __init__(
        self,
        command: list[str],
        *,
        cwd: Path,
        log: Path,
        limits: Limits,
        fds: tuple[int, ...] = (),
        env: dict[str, str] | None = None,
    ) -> None:
        options = asdict(limits) | {"log": str(log), "fds": list(fds)}
        self._guard = subprocess.Popen(
            [sys.executable, "-I", str(GUARD), json.dumps(options), *command],
            cwd=cwd,
            env=clean_environment(cwd) | (env or {}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            pass_fds=fds,
            start_new_session=True,
        )
        # A learner's code could also put its guard to sleep: then we do not wait for it for ever.
        self._deadline = time.monotonic() + limits.seconds + 20
        first = self._line()
        self._pid = int(first) if first.strip().isdigit() else None
        self.ending: Ending | None = None

    def has_ended(self, seconds: float) -> bool:
        """Whether the guard reports an end within ``seconds``."""
        return self.ending is not None or self._has_word(seconds)

    def wait(self) -> Ending:
        """Until the command has ended by itself or passed a limit."""
        return self._read_ending()

    def stop(self) -> Ending:
        """End it now, if it has not ended yet."""
        if self.ending is None:
            _quietly(self._guard.stdin.close)
            self._deadline = min(self._deadline, time.monotonic() + 3)
        return self._read_ending()

    def _read_ending(self) -> Ending:
        if self.ending is None:
            last = self._line()
            self._guard.kill()  # it has nothing to do any more, or it hangs
            self._guard.wait()
            try:
                self.ending = Ending(**json.loads(last))
            except (ValueError, TypeError):
                self.ending = Ending(None)
                if self._pid is not None:  # no guard any more: do what can be done from here
                    _quietly(os.killpg, self._pid, signal.SIGKILL)
            self._guard.stdout.close()
            _quietly(self._guard.stdin.close)
        return self.ending

    def _line(self) -> bytes:
        """The guard's next word; empty where it has gone, or does not answer."""
        if not self._has_word(max(0.0, self._deadline - time.monotonic())):
            self._guard.send_signal(signal.SIGCONT)  # in case it was put to sleep
            if not self._has_word(10):
                return b""
        return self._guard.stdout.readline()

    def _has_word(self, seconds: float) -> bool:
        return bool(select.select([self._guard.stdout], [], [], seconds)[0])

    def __enter__(self) -> Contained:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def clean_environment(scratch: Path) -> dict[str, str]:
    """The environment for a learner's program: what it needs to start, and a place of its own for temporary files."""
    passed = {
        name: value for name, value in os.environ.items() if name in PASSED_ON or name.startswith(PASSED_ON_PREFIXES)
    }
    own = {
        # Several are graded at a time, one for each core: more threads than that would wait for each other.
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1"),
        "TMPDIR": str(scratch),
        "IPYTHONDIR": str(scratch / ".ipython"),
        "JUPYTER_RUNTIME_DIR": str(scratch / ".jupyter"),
        "TRITON_CACHE_DIR": str(scratch / ".triton"),
        "MPLCONFIGDIR": str(scratch / ".matplotlib"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        "PYTHONUTF8": "1",
    }
    return passed | own


def _quietly(function: object, *args: object) -> object:
    """Call it; None where the operating system says no (mostly: that process has gone already)."""
    try:
        return function(*args)
    except OSError:
        return None
