"""Runs a learner's program so that it ends when it should, and takes nothing with it.

Between the grader and the learner's code stands a *guard*: this file, run as a program of its own, standard library
only. It starts the command in a new session with limits on it, watches what it and all its descendants use, and
kills them all when the command ends, when the grader says so or goes away, or when a limit is passed. The learner's
parent process is the guard, so code that kills its parent ends nothing but itself.

What this is not: a sandbox. The code runs as the same user: it can read and delete that user's files, reach the
network, and kill processes that it looks for. On macOS a program that detaches itself (a new session, then the
death of its parent) is not found again, and memory is limited by the guard's watching alone. Grade hostile code in
a container.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

WATCH_SECONDS = 0.05
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
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
    "OMP_NUM_THREADS",
    "HF_HOME",
)
PASSED_ON_PREFIXES = ("CUDA_", "NVIDIA_", "TRITON_", "PAGEDLAB_")


@dataclass(frozen=True)
class Limits:
    """For the command and all that it starts, together. ``address_space``: of each process (None: not limited)."""

    seconds: float
    memory_bytes: int = 4 << 30
    address_space: int | None = 4 << 30
    processes: int = 64
    file_bytes: int = 256 << 20


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
            [sys.executable, "-I", __file__, json.dumps(options), *command],
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
        "TMPDIR": str(scratch),
        "IPYTHONDIR": str(scratch / ".ipython"),
        "JUPYTER_RUNTIME_DIR": str(scratch / ".jupyter"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        "PYTHONUTF8": "1",
    }
    return passed | own


# ----------------------------------------------------------------------------------------------- the guard's side


def main() -> None:
    options, command = json.loads(sys.argv[1]), sys.argv[2:]
    if sys.platform == "linux":
        # Orphans of the command become children of the guard, so that it finds them.
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    child = os.fork()
    if child == 0:
        try:
            _become(command, options)
        finally:
            os._exit(127)
    for fd in options["fds"]:
        os.close(fd)
    print(child, flush=True)
    reason, status = _watch(child, options)
    _kill_all(child)
    if status is None:
        _, status = _quietly(os.waitpid, child, 0) or (child, None)
    exit_code = None if status is None else os.waitstatus_to_exitcode(status)
    print(json.dumps({"exit_code": exit_code, "reason": reason}), flush=True)


def _become(command: list[str], options: dict) -> None:
    import resource  # not at the top: Windows has none, and is to hear so in words

    os.setsid()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    log = os.open(options["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    limits = [(resource.RLIMIT_FSIZE, options["file_bytes"]), (resource.RLIMIT_CORE, 0)]
    if options["address_space"] is not None and sys.platform == "linux":  # macOS accepts this limit and ignores it
        limits.append((resource.RLIMIT_AS, options["address_space"]))
    for kind, value in limits:
        _, hard = resource.getrlimit(kind)
        resource.setrlimit(kind, (value, value) if hard == resource.RLIM_INFINITY else (min(value, hard), hard))
    os.nice(5)  # the guard must get its turn
    os.execvp(command[0], command)


def _watch(child: int, options: dict) -> tuple[str, int | None]:
    """Until the command ends or has to: (reason, the command's wait status where it ended by itself)."""
    end = time.monotonic() + options["seconds"]
    while True:
        # Orphans that ended are reaped on the way; only the command itself counts.
        while (reaped := _quietly(os.waitpid, -1, os.WNOHANG)) and reaped[0]:
            if reaped[0] == child:
                return "", reaped[1]
        told, _, _ = select.select([0], [], [], WATCH_SECONDS)
        if told:  # the grader closed its end, or is gone
            return "stopped", None
        if time.monotonic() > end:
            return "time", None
        family = descendants(os.getpid())
        if len(family) > options["processes"]:
            return "processes", None
        if sum(family.values()) > options["memory_bytes"]:
            return "memory", None


def _kill_all(child: int) -> None:
    """Kill the command's group at once, then whoever left the group, until nobody is left."""
    for _ in range(200):
        _quietly(os.killpg, child, signal.SIGKILL)
        family = descendants(os.getpid())
        for pid in family:
            _quietly(os.kill, pid, signal.SIGSTOP)  # first nobody can fork any more
        for pid in family:
            _quietly(os.kill, pid, signal.SIGKILL)
        if _reap() and not descendants(os.getpid()):
            return
        time.sleep(0.01)


def _reap() -> bool:
    """Take in the ends of the children that have ended. True where no child is left, dead or alive."""
    while True:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                return False
        except ChildProcessError:
            return True


def descendants(ancestor: int) -> dict[int, int]:
    """Every living process below ``ancestor``: pid -> bytes of memory in use (what they share is counted for each)."""
    table = _processes()
    below: dict[int, int] = {}
    found = {ancestor}
    while found:
        found = {pid for pid, (parent, _) in table.items() if parent in found and pid not in below}
        below |= {pid: table[pid][1] for pid in found}
    return below


def _processes() -> dict[int, tuple[int, int]]:
    """Every living process: pid -> (parent's pid, bytes of memory in use)."""
    if os.path.isdir("/proc/self"):
        return _processes_from_proc()
    ps = ["ps", "-axo", "pid=,ppid=,rss="]
    rows = [
        list(map(int, line.split()))
        for line in subprocess.run(ps, capture_output=True, text=True).stdout.splitlines()
    ]
    return {pid: (parent, kib * 1024) for pid, parent, kib in rows if kib}


def _processes_from_proc() -> dict[int, tuple[int, int]]:
    page = os.sysconf("SC_PAGE_SIZE")
    table = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat") as file:
                    state, parent, *rest = file.read().rpartition(")")[2].split()
            except OSError:  # it has ended meanwhile
                continue
            if state not in "ZX":
                table[int(name)] = (int(parent), int(rest[19]) * page)
    return table


def _quietly(function: object, *args: object) -> object:
    """Call it; None where the operating system says no (mostly: that process has gone already)."""
    try:
        return function(*args)
    except OSError:
        return None


if __name__ == "__main__":
    main()
