"""A program that can write into its own folder only, and signal only what it has started: Linux's Landlock.

Landlock needs no rights and no set-up, and cannot be taken off again. Source: the kernel's documentation,
userspace-api/landlock. What it does not hold back: reading, the network, and changes to a file's owner, mode and
times. Linux before 5.13, a kernel built without it, and other systems have none: then nothing is confined, and
``watch.py`` looks whether files have changed.
"""

from __future__ import annotations

import ctypes
import glob
import os
import stat
import struct
import sys

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446  # system calls, by the same numbers on every architecture
GET_VERSION, PATH_BENEATH = 1, 1
PR_SET_NO_NEW_PRIVS = 38
WRITE_FILE, TRUNCATE = 1 << 1, 1 << 14
# Remove a folder or a file; make a device, folder, file, socket, pipe or link.
IN_FOLDERS = sum(1 << bit for bit in range(4, 13))
REFER = 1 << 13  # rename and link between folders
SCOPE_SIGNALS = 1 << 1
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/tty", "/dev/ptmx", "/dev/pts", "/dev/shm", "/dev/nvidia*")


def version() -> int:
    """Of Landlock on this machine; 0 where there is none."""
    if sys.platform != "linux":
        return 0
    return max(0, ctypes.CDLL(None).syscall(CREATE_RULESET, None, 0, GET_VERSION))


def confine_writes(places: list[str]) -> bool:
    """From now on this process and all that it starts can write into ``places`` (folders or files) and devices only.

    False where the operating system cannot see to it, and nothing has changed.
    """
    have = version()
    if have == 0:
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    handled = WRITE_FILE | IN_FOLDERS
    handled |= REFER if have >= 2 else 0
    handled |= TRUNCATE if have >= 3 else 0
    # Files, network, scope. An older kernel takes the longer structure where what it does not know is 0.
    wanted = struct.pack("QQQ", handled, 0, SCOPE_SIGNALS if have >= 6 else 0)
    rules = libc.syscall(CREATE_RULESET, wanted, len(wanted), 0)
    if rules < 0:
        return False
    for place in [*places, *(found for pattern in DEVICES for found in glob.glob(pattern))]:
        try:
            at = os.open(place, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue
        allowed = handled if stat.S_ISDIR(os.fstat(at).st_mode) else handled & (WRITE_FILE | TRUNCATE)
        libc.syscall(ADD_RULE, rules, PATH_BENEATH, struct.pack("=Qi", allowed, at), 0)
        os.close(at)
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    done = libc.syscall(RESTRICT_SELF, rules, 0) == 0
    os.close(rules)
    return done
