"""How the ranks of an engine come together: a store where they find each other, a line from rank 0 to each, a group.

Both ways to start them go through here: rank 0 has started the others itself (``start``), or ``torchrun`` all of them.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import socket
import sys
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection, Listener
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.subprocess_handler import SubprocessHandler, get_subprocess_handler

from pagedlab.errors import PagedlabError
from pagedlab.executor.group import own_address
from pagedlab.model.split import Split

HOME = "127.0.0.1"
LONGEST_WAIT = timedelta(minutes=10)  # for others to come
# When is a host gone that says nothing? Seconds, seconds, times; and milliseconds, where something was sent to it.
SILENCE = {"TCP_KEEPIDLE": 3, "TCP_KEEPINTVL": 1, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 6000}
DOOR = "pagedlab/door"


def launched() -> Split | None:
    """This process's place among those that torchrun started (or who sets the same variables); None: nobody did."""
    if not all(name in os.environ for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")):
        return None
    return Split(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))


def device_of_rank(device: str) -> torch.device:
    """Each rank of a host has a GPU of its own."""
    return torch.device(device, int(os.environ.get("LOCAL_RANK", 0)) if device == "cuda" else None)


def check_device(device: Any, size: int) -> str:
    """``device``: "cpu" or "cuda". Raises PagedlabError for any other, and for fewer GPUs than ranks on this host."""
    if device not in ("cpu", "cuda"):
        raise PagedlabError(
            f"tensor_parallel_size is {size} and device {device!r}; a model is split over processes with torch on "
            'device="cpu", or with one GPU each on device="cuda".'
        )
    here = int(os.environ.get("LOCAL_WORLD_SIZE", size)) if launched() else size
    if device == "cuda" and here > torch.cuda.device_count():
        raise PagedlabError(
            f"tensor_parallel_size={size} needs {here} GPUs on this host, and there are {torch.cuda.device_count()}: "
            'give less, or device="cpu".'
        )
    return device


@dataclass
class Store:
    """Where ranks find each other, and the address of this one."""

    store: dist.Store
    address: str


def at_home(size: int) -> tuple[Store, dict[str, str]]:
    """A store that only this machine reaches, and the variables by which others find it."""
    door = socket.create_server((HOME, 0))
    port = door.getsockname()[1]
    store = dist.TCPStore(HOME, port, None, True, wait_for_workers=False, master_listen_fd=door.detach())
    found_by = {"MASTER_ADDR": HOME, "MASTER_PORT": str(port), "WORLD_SIZE": str(size), "LOCAL_WORLD_SIZE": str(size)}
    return Store(dist.PrefixStore("pagedlab", store), HOME), found_by


def from_environment() -> Store:
    """The launcher's."""
    store, _, _ = next(iter(dist.rendezvous("env://", timeout=LONGEST_WAIT)))
    return Store(dist.PrefixStore("pagedlab", store), own_address(os.environ["MASTER_ADDR"]))


def start(size: int, found_by: dict[str, str]) -> list[SubprocessHandler]:
    """Ranks 1 and up, as processes of this machine, with the part of torchrun that starts one. Each has a session of
    its own, so Ctrl-C in a terminal does not reach them, and a share of the threads that this process computes with."""
    threads = str(max(1, torch.get_num_threads() // size))
    paths = os.pathsep.join(path for path in sys.path if path)
    same = {"OMP_WAIT_POLICY": "PASSIVE", "OMP_NUM_THREADS": threads, "PYTHONPATH": paths} | found_by
    command = ("-P", "-m", "pagedlab.executor.follower")
    return [
        get_subprocess_handler(
            sys.executable, command, same | {"RANK": str(rank), "LOCAL_RANK": str(rank)}, None, None, rank, None
        )
        for rank in range(1, size)
    ]  # fmt: skip


def wait_for_others(here: Store, size: int) -> dict[int, tuple[Connection, int]]:
    """Rank 0: a line to each of the others, by rank, with its process id."""
    key = secrets.token_bytes(32)
    with Listener((here.address, 0), backlog=size, authkey=key) as listener:
        here.store.set(DOOR, json.dumps([*listener.address, key.hex()]))
        lines = {}
        while len(lines) < size - 1:
            with contextlib.suppress(AuthenticationError, EOFError, OSError):  # a stranger at the door
                line = _quick(listener.accept())
                rank, pid = line.recv()
                lines[rank] = line, pid
    return lines


def line_to_rank_0(here: Store, rank: int) -> Connection:
    here.store.set_timeout(LONGEST_WAIT)
    address, port, key = json.loads(here.store.get(DOOR))
    line = _quick(Client((address, port), authkey=bytes.fromhex(key)))
    line.send((rank, os.getpid()))
    return line


def _quick(line: Connection) -> Connection:
    """Small messages leave at once, and a host that is gone without a word is noticed."""
    with socket.socket(fileno=os.dup(line.fileno())) as wire:
        wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in SILENCE.items():
            if hasattr(socket, name):  # not every system has all of them
                wire.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return line
