"""The guard between the grader and a learner's program: starts it, watches it, ends it and all that it started.

Run by ``contain.py`` as a program of its own: ``python -I guard.py OPTIONS COMMAND…``; the standard library only. On
standard output it says the command's pid, and at the end, as JSON, how the command ended. When its standard input
ends, the grader wants no more of it.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import stat
import subprocess
import sys
import time

WATCH_SECONDS, WATCH_SECONDS_AT_MOST, DISK_SECONDS = 0.05, 0.25, 0.25
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36


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
    for kind, value in ((resource.RLIMIT_FSIZE, options["file_bytes"]), (resource.RLIMIT_CORE, 0)):
        _, hard = resource.getrlimit(kind)
        resource.setrlimit(kind, (value, value) if hard == resource.RLIM_INFINITY else (min(value, hard), hard))
    os.nice(5)  # the guard must get its turn
    if options["confine"]:
        sys.path.append(os.path.dirname(os.path.abspath(__file__)))  # -I took it away
        from confine import confine

        confine([os.getcwd()], options["readable"], options["hidden"])
    os.execvp(command[0], command)


def _watch(child: int, options: dict) -> tuple[str, int | None]:
    """Until the command ends or has to: (reason, the command's wait status where it ended by itself)."""
    end = time.monotonic() + options["seconds"]
    pause = WATCH_SECONDS
    look = 0.0
    while True:
        # Orphans that ended are reaped on the way; only the command itself counts.
        while (reaped := _quietly(os.waitpid, -1, os.WNOHANG)) and reaped[0]:
            if reaped[0] == child:
                return "", reaped[1]
        readable, _, _ = select.select([0], [], [], pause)
        if readable:  # the grader closed its end, or is gone
            return "stopped", None
        if time.monotonic() > end:
            return "time", None
        before = time.process_time()
        family = descendants(os.getpid())
        # A look at all processes of a busy machine takes milliseconds: of one core in all no more than a twentieth.
        pause = min(max(WATCH_SECONDS, 20 * (time.process_time() - before)), WATCH_SECONDS_AT_MOST)
        if len(family) > options["processes"]:
            return "processes", None
        if sum(family.values()) > options["memory_bytes"]:
            return "memory", None
        if time.monotonic() > look:
            started = time.monotonic()
            if _fills(os.getcwd(), family, options):
                return "disk", None
            look = time.monotonic() + max(DISK_SECONDS, 10 * (time.monotonic() - started))


def _fills(folder: str, family: dict[int, int], options: dict) -> bool:
    """Whether the folder, and files in it that were removed and are still open, are more than the limits allow."""
    files, size, folders = 0, 0, [folder]
    while folders:
        try:
            with os.scandir(folders.pop()) as entries:
                for entry in entries:
                    files += 1
                    size += 512 * entry.stat(follow_symlinks=False).st_blocks
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                    if files > options["files"]:
                        return True
        except FileNotFoundError:
            continue
        except OSError:  # a folder that nobody may look into, or at the end of too long a path
            return True
    removed = {}
    for pid in family:
        for name in _quietly(os.listdir, f"/proc/{pid}/fd") or ():
            found = _quietly(os.stat, f"/proc/{pid}/fd/{name}")
            if found and stat.S_ISREG(found.st_mode) and not found.st_nlink:
                removed[found.st_dev, found.st_ino] = 512 * found.st_blocks
    return size + sum(removed.values()) > options["disk_bytes"]


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
