"""How the answers of exercise 07 are asked for."""

from __future__ import annotations

from typing import Any

from pagedlab.grading.plain import attempt
from pagedlab.grading.tasks.ex07.pool import pool
from pagedlab.grading.tasks.ex07.queue import queue
from pagedlab.grading.tasks.values import values
from pagedlab.kv import KVCacheBlock


def names(objects: dict[str, Any], case: dict) -> dict:
    def named(tokens: list[int], salt: str) -> Any:
        given = {"salt": salt} if salt else {}
        made = objects["block_hashes"](list(tokens), case["block_size"], **given)
        return [name.hex() if type(name) is bytes else {"type": type(name).__name__} for name in made]

    return {"names": [attempt(named, tokens, salt) for tokens, salt in case["prompts"]]}


def _name(i: int) -> bytes:
    return f"name of block {i}".encode()


def hits(objects: dict[str, Any], case: dict) -> dict:
    blocks = {_name(int(i)): KVCacheBlock(block_id) for i, block_id in case["cached"].items()}
    names = [_name(i) for i in range(case["full"])]

    def ask() -> list[int]:
        found = objects["longest_hit"](names, case["num_tokens"], case["block_size"], blocks.get)
        return [block.block_id for block in found]

    return {"found": attempt(ask)}


PROBES = {"07.1": queue, "07.2": names, "07.3": hits, "07.4": pool, "07.5": values}
