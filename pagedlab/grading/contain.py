"""Runs a learner's program so that it ends when it should, and takes nothing with it.

Between the grader and the learner's code stands a *guard* (``guard.py``), a program of its own. It starts the
command in a new session with limits on it, watches what it and all its descendants use, and kills them all when the
command ends, when the grader says so or goes away, or when a limit is passed. The learner's parent process is the
guard, so code that kills its parent ends nothing but itself. On Linux the command can write only into its own folder,
read only what it needs to run (Python, pagedlab, the model, the system), signal only what it has started itself, and
use no TCP (``confine.py``, which says what that does not hold back).

What this is not: a sandbox. The code runs as the same user. Where there is no Landlock it can read, write and delete
that user's files, reach the network, and kill processes that it looks for. On macOS a program that detaches itself (a
new session, then the death of its parent) is not found again. Grade hostile code in a container.
"""

from __future__ import annotations

import json
import os
import select
import signal
import site
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import pagedlab
from pagedlab.cache import cache_folder

COURSE = Path(pagedlab.__file__).parents[1]  # where the package is installed from a clone: the clone
NOT_FOR_LEARNERS = tuple(str(COURSE / name) for name in ("solutions", "tests", ".git"))
GUARD = Path(__file__).with_name("guard.py")
# What a learner's program gets to see of our environment: no tokens of a CI, no start-up files, no options for pytest.
PASSED_ON = (
    "PATH",
    "LANG",
    "LC_ALL",
    "TZ",
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
    """For the command and all that it starts, together. ``file_bytes``: of each file; ``disk_bytes``, ``files``: of
    its folder.

    ``confine``: it can read and write what it is to, where the operating system can see to that; ``hidden``: what of
    our files and folders it is not to read.
    """

    seconds: float
    memory_bytes: int = 4 << 30
    processes: int = 64
    file_bytes: int = 256 << 20
    disk_bytes: int = 1 << 30
    files: int = 20_000
    confine: bool = True
    hidden: tuple[str, ...] = ()


@dataclass(frozen=True)
class Ending:
    """How it ended. ``reason``: "" for the command's own end, else "time", "memory", "disk",
    "processes" or "stopped"."""

    exit_code: int | None  # negative: the signal that killed it; None: not known
    reason: str = ""

    def __str__(self) -> str:
        reasons = {
            "time": "it took too long",
            "memory": "it used too much memory",
            "disk": "it filled its folder with too much, or with too many files",
            "processes": "it started too many processes",
            "stopped": "it was stopped",
        }
        if self.reason:
            return reasons[self.reason]
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
        options = asdict(limits) | {"log": str(log), "fds": list(fds), "readable": readable()}
        options["hidden"] = [*limits.hidden, *NOT_FOR_LEARNERS]
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


@contextmanager
def scratch(prefix: str) -> Iterator[Path]:
    """A temporary folder for a learner's program, removed whatever the program has made of it."""
    folder = tempfile.mkdtemp(prefix=prefix)
    try:
        yield Path(folder).resolve()
    finally:
        # Not shutil: it gives up on folders in folders without end.
        for command in (["rm", "-rf"], ["chmod", "-R", "u+rwx"], ["rm", "-rf"]):
            if os.path.exists(folder):
                subprocess.run([*command, folder], stderr=subprocess.DEVNULL)


def readable() -> list[str]:
    """What a learner's program has to read, beside the system's folders: Python, its packages, pagedlab, the model."""
    import pagedlab.kernels

    ours = [*pagedlab.__path__, *pagedlab.kernels.__path__, cache_folder()]
    python = [sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix, *sysconfig.get_paths().values()]
    packages = [*site.getsitepackages(), site.getusersitepackages()]
    lists = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "CUDA_HOME", "CUDA_PATH", "HF_HOME")
    named = [folder for name in lists for folder in os.environ.get(name, "").split(os.pathsep)]
    fonts = [Path.home() / ".fonts", Path.home() / ".local/share/fonts"]
    places = {os.path.realpath(place) for place in [*ours, *python, *packages, *named, *fonts] if place}
    return sorted(place for place in places if place != "/" and os.path.exists(place))


def clean_environment(scratch: Path) -> dict[str, str]:
    """The environment for a learner's program: what it needs to start, and a place of its own for temporary files."""
    passed = {
        name: value for name, value in os.environ.items() if name in PASSED_ON or name.startswith(PASSED_ON_PREFIXES)
    }
    own = {
        # Several are graded at a time, one for each core: more threads than that would wait for each other.
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1"),
        "TMPDIR": str(scratch),
        "HOME": str(scratch),
        "XDG_CACHE_HOME": str(scratch / ".cache"),
        "PYTHONUSERBASE": site.getuserbase(),
        "PAGEDLAB_CACHE": str(cache_folder()),
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
