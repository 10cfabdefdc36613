"""What does ``fork()`` cost in memory? A child process, measured: before it writes, and after.

Linux shares the pages of a process with its child and copies a page in the moment in which one of them writes to it.
This is where copy-on-write of KV blocks has its name from. The kernel itself says how much of a process is its own
(``/proc/self/smaps_rollup``).

The measuring is done in a process of its own, which is small and has one thread: ``python -m
pagedlab.bench.linux_fork``.
"""

from __future__ import annotations

import json
import mmap
import os
import subprocess
import sys
from pathlib import Path

SMAPS = Path("/proc/self/smaps_rollup")
PAGE = mmap.PAGESIZE


def measure(mib: int = 64, shares: tuple[float, ...] = (0.25, 0.5, 1.0)) -> dict[str, float] | None:
    """MiB that belong to a forked child alone, of ``mib`` MiB that its parent has written: by what it did since.

    None where the system does not say (no Linux, or a sandbox that hides it). Raises RuntimeError where the measuring
    process failed.
    """
    if not says():
        return None
    command = [sys.executable, "-c", f"from {__name__} import fork_and_say; fork_and_say({mib}, {tuple(shares)})"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    if done.returncode != 0 or not done.stdout.strip():
        raise RuntimeError(f"the process that forks failed:\n{done.stderr}")
    return json.loads(done.stdout)


def says() -> bool:
    """Does this system tell a process how much memory is its own alone?"""
    try:
        return hasattr(os, "fork") and _private_kib() >= 0
    except OSError:
        return False


def fork_and_say(mib: int, shares: tuple[float, ...]) -> None:
    """Prints what :func:`measure` returns. Forks, so call it in a process that has nothing else to do."""
    memory = mmap.mmap(-1, mib << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    num_pages = (mib << 20) // PAGE
    for page in range(num_pages):
        memory[page * PAGE] = 1
    read_end, write_end = os.pipe()
    if os.fork() == 0:
        before = _private_kib()
        private_mib = {}
        for page in range(num_pages):
            memory[page * PAGE]
        private_mib["it has read every page"] = (_private_kib() - before) / 1024
        written = 0
        for share in shares:
            while written < share * num_pages:
                memory[written * PAGE] = 2
                written += 1
            private_mib[f"it has written to {share:.0%} of the pages"] = (_private_kib() - before) / 1024
        os.write(write_end, json.dumps(private_mib).encode())
        os._exit(0)
    os.wait()
    print(os.read(read_end, 1 << 16).decode())


def _private_kib() -> int:
    """Dirty pages of this process that nobody shares, in KiB."""
    for line in SMAPS.read_text().splitlines():
        if line.startswith("Private_Dirty:"):
            return int(line.split()[1])
    raise OSError(f"{SMAPS} does not say")
