"""Who is called in a step: every call that decides about blocks, in the order in which the calls began."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

SCHEDULER, MANAGER, POOL = "scheduler", "manager", "pool"


@dataclass
class Call:
    """A call: whose method it is, inside how many others it was made, and what a log would say of it. ``request``: the
    request that a manager's call is about; ``blocks``: those that a pool's call is about."""

    owner: str
    method: str
    depth: int
    text: str = ""
    request: str | None = None
    blocks: list[int] | None = None


@contextmanager
def watched(scheduler: Any, manager: Any, pool: Any) -> Iterator[list[Call]]:
    """The calls that are made while it lasts; the list grows. What merely asks for a number is left out."""
    calls: list[Call] = []
    asking: list[Any] = []  # the request whose prefix is being looked up
    inside = [0]

    def watch(owner: str, method: Any, describe: Any, *args: Any, **kwargs: Any) -> Any:
        call = Call(owner, method.__name__, inside[0])
        calls.append(call)
        if owner == MANAGER:
            call.request = args[0].request_id
        if call.method == "get_computed_blocks":
            asking[:] = args
        inside[0] += 1
        try:
            result = method(*args, **kwargs)
        finally:
            inside[0] -= 1
        call.text = describe(result, *args, **kwargs)
        if owner == POOL:
            call.blocks = _blocks(call.method, result, args)
        return result

    def found(result: Any, block_hash: bytes) -> str:
        logical = asking[0].block_hashes.index(block_hash)
        answer = f"#{result.block_id}" if result else "None"
        return f"get_cached_block(hash of {asking[0].request_id}'s block {logical}) -> {answer}"

    texts: dict[str, dict[str, Any]] = {
        SCHEDULER: {
            "schedule": lambda result: f"schedule() -> tokens: {_tokens(result.num_scheduled_tokens)}",
            "update_from_output": lambda result, *_: f"update_from_output(...) -> finished: {_names(result)}",
        },
        MANAGER: {
            "get_computed_blocks": lambda result, request: (
                f"get_computed_blocks({request.request_id}) -> {_ids(result[0])}, {result[1]} tokens"
            ),
            "allocate_slots": lambda result, request, count, **_: (
                f"allocate_slots({request.request_id}, {count}) -> {_ids(result)}"
            ),
            "free": lambda _, request: f"free({request.request_id})",
        },
        POOL: {
            "get_cached_block": found,
            "touch": lambda _, blocks: f"touch({_ids(blocks)})",
            "get_new_blocks": lambda result, count: f"get_new_blocks({count}) -> {_ids(result)}",
            "cache_full_blocks": lambda _, blocks, hashes, first, end: f"cache_full_blocks({_ids(blocks[first:end])})",
            "free_blocks": lambda _, blocks: f"free_blocks({_ids(blocks)})",
        },
    }
    things = {SCHEDULER: scheduler, MANAGER: manager, POOL: pool}
    for owner, methods in texts.items():
        for name, describe in methods.items():
            setattr(things[owner], name, partial(watch, owner, getattr(things[owner], name), describe))
    try:
        yield calls
    finally:
        for owner, methods in texts.items():
            for name in methods:
                delattr(things[owner], name)


def as_record(calls: list[Call]) -> list[dict]:
    """The calls as plain data. Whose method a call is, is left to the reader."""
    return [{"depth": c.depth, "method": c.method, "request": c.request, "blocks": c.blocks} for c in calls]


def _blocks(method: str, result: Any, args: tuple) -> list[int]:
    """The blocks that a pool's call found, took, named or gave back."""
    if method == "get_cached_block":
        blocks = [result] if result else []
    elif method == "get_new_blocks":
        blocks = result
    else:
        blocks = args[0][args[2] : args[3]] if method == "cache_full_blocks" else args[0]
    return [block.block_id for block in blocks]


def numbers(ids: list[int]) -> str:
    return " ".join(f"#{i}" for i in ids) or "none"


def _ids(blocks: Any) -> str:
    return "None" if blocks is None else numbers([block.block_id for block in blocks])


def _tokens(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items()) or "none"


def _names(requests: list) -> str:
    return " ".join(request.request_id for request in requests) or "nobody"
