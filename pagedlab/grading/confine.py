"""A program that can read and write only what it is given, signal only what it has started, and use no TCP: Linux's
Landlock.

Landlock needs no rights and no set-up, and cannot be taken off again. Source: the kernel's documentation,
userspace-api/landlock. Since ABI 1 (Linux 5.13) it holds back reading, writing and the memory and environment of other
programs, since ABI 4 (6.7) TCP, since ABI 6 (6.12) signals and abstract Unix sockets. It does not hold back: UDP, Unix
sockets that have a path, System V shared memory, names of files (only what is in them), and changes to a file's owner,
mode and times. Older kernels, kernels built without it, and other systems have none: then nothing is confined, and
``watch.py`` looks whether files have changed.
"""

from __future__ import annotations

import ctypes
import glob
import os
import stat
import struct
import sys
from collections.abc import Iterable, Iterator

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446  # system calls, by the same numbers on every architecture
GET_VERSION, PATH_BENEATH = 1, 1
PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 24, 38
RIGHTS_TO_LOOK = (19, 21, 38)  # CAP_SYS_PTRACE, CAP_SYS_ADMIN, CAP_PERFMON: root could look into the grader by these
WRITE_FILE, READ_FILE, READ_FOLDER, TRUNCATE = 1 << 1, 1 << 2, 1 << 3, 1 << 14
# Remove a folder or a file; make a device, folder, file, socket, pipe or link.
IN_FOLDERS = sum(1 << bit for bit in range(4, 13))
REFER = 1 << 13  # rename and link between folders
BIND_AND_CONNECT_TCP = 1 << 0 | 1 << 1
SCOPE_UNIX_SOCKETS, SCOPE_SIGNALS = 1 << 0, 1 << 1
# Not shm: what is put there stays behind.
DEVICES = ("null", "zero", "full", "tty", "ptmx", "pts", "random", "urandom", "nvidia*", "dxg")
SYSTEM = ("/usr", "/lib*", "/bin", "/sbin", "/etc", "/opt", "/nix", "/proc", "/sys", "/var/cache/fontconfig")


def version() -> int:
    """Of Landlock on this machine; 0 where there is none."""
    if sys.platform != "linux":
        return 0
    return max(0, ctypes.CDLL(None).syscall(CREATE_RULESET, None, 0, GET_VERSION))


def not_held_back() -> str:
    """What of the above this machine cannot see to, in words; "" where it can all."""
    have = version()
    if have == 0:
        return "this machine has no Landlock: a submission can read and change files, use the network, and end programs"
    lacking = ["use TCP"] * (have < 4) + ["end other programs"] * (have < 6)
    return f"this machine's Landlock is old: a submission can {' and '.join(lacking)}" if lacking else ""


def confine(own: list[str], readable: list[str], hidden: list[str]) -> bool:
    """From now on this process and all that it starts can use the folders ``own`` and devices, read the system's
    folders and ``readable`` without what is ``hidden``, and use no TCP.

    False where the operating system cannot see to it, and nothing has changed.
    """
    have = version()
    if have == 0:
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    reading = READ_FILE | READ_FOLDER
    files = WRITE_FILE | IN_FOLDERS | reading | (REFER if have >= 2 else 0) | (TRUNCATE if have >= 3 else 0)
    net = BIND_AND_CONNECT_TCP if have >= 4 else 0
    scopes = SCOPE_SIGNALS | SCOPE_UNIX_SOCKETS if have >= 6 else 0
    wanted = struct.pack("QQQ", files, net, scopes)[: 8 if have < 4 else 16 if have < 6 else 24]
    rules = libc.syscall(CREATE_RULESET, wanted, len(wanted), 0)
    if rules < 0:
        return False
    devices = [found for name in DEVICES for found in glob.glob(f"/dev/{name}")]
    allowed = [(place, files) for place in [*own, *devices]]
    system = [found for pattern in SYSTEM for found in glob.glob(pattern)]
    secret = {os.path.realpath(place) for place in hidden}
    for place in {os.path.realpath(place) for place in [*system, *readable]}:
        allowed += _without(place, secret)
    for place, rights in allowed:
        try:
            at = os.open(place, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue
        rights &= files if stat.S_ISDIR(os.fstat(at).st_mode) else WRITE_FILE | READ_FILE | TRUNCATE & files
        libc.syscall(ADD_RULE, rules, PATH_BENEATH, struct.pack("=Qi", rights, at), 0)
        os.close(at)
    for right in RIGHTS_TO_LOOK:
        libc.prctl(PR_CAPBSET_DROP, right, 0, 0, 0)
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    done = libc.syscall(RESTRICT_SELF, rules, 0) == 0
    os.close(rules)
    return done


def _without(place: str, secret: Iterable[str]) -> Iterator[tuple[str, int]]:
    """What may be read of ``place`` (a real path): all of it, or, where something in it is secret, the rest."""
    if any(f"{place}/".startswith(f"{one}/") for one in secret):
        return
    inside = [one for one in secret if one.startswith(f"{place.rstrip('/')}/")]
    if not inside:
        yield place, READ_FILE | READ_FOLDER
        return
    yield place, READ_FOLDER
    try:
        for name in os.listdir(place):
            yield from _without(os.path.realpath(os.path.join(place, name)), secret)
    except OSError:
        return
