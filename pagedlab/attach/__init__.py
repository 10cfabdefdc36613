"""Follow a vLLM server that runs elsewhere: all of its memory where it is watched, else the prefix cache alone, by the
KV events that vLLM publishes. And publish those of our own engine.

A server started with ``--scheduler-cls pagedlab.watch.WatchedScheduler`` tells whatever happens to its memory
(``pagedlab.watch``), and a follower has the same trace as of an engine of ours.

A vLLM server started with ``--kv-events-config '{"enable_kv_cache_events": true}'`` tells over ZeroMQ which full
blocks it caches (``BlockStored``), which hashes it drops (``BlockRemoved``) and when it forgets them all
(``AllBlocksCleared``). Routers use this to send a prompt where its prefix is already in memory.

What that stream carries: hashes, each with its parent's, and the tokens of each block. What it does not: block ids,
tables, reference counts, the free queue. And a removal is told when the block is handed out again (or loses its hash
in a rarer way), not when it is freed. So what can be rebuilt here is the *tree of cached prefixes*, and nothing else of
that server's memory.

Needs msgspec and pyzmq: ``pip install "pagedlab[attach]"``.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from pagedlab.errors import PagedlabError

_HOME = {
    "Follower": "follow",
    "KVEventPublisher": "publish",
    "KVEventReader": "kv_reader",
    "WatchReader": "watched",
    "attach": "read",
    "run": "show",
}

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'pagedlab.attach' has no attribute {name!r}; it has {', '.join(__all__)}")
    try:
        return getattr(import_module(f"pagedlab.attach.{_HOME[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name not in ("msgspec", "zmq"):
            raise
        raise PagedlabError(
            f"KV events need the library {error.name}, which is not installed. Install both that are needed: "
            'pip install "pagedlab[attach]".'
        ) from None
