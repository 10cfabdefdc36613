"""How the answers of exercise 07 are asked for."""

from __future__ import annotations

from typing import Any

from pagedlab.grading.plain import OVERWRITTEN, NotPlain, attempt
from pagedlab.grading.tasks.ex07.pool import pool
from pagedlab.grading.tasks.ex07.queue import queue
from pagedlab.grading.tasks.values import values
from pagedlab.kv import KVCacheBlock


def names(objects: dict[str, Any], case: dict) -> dict:
    """``given``: the tokens as they are after the call."""

    def named(tokens: list[int], salt: str) -> Any:
        given = {"salt": salt} if salt else {}
        made = objects["block_hashes"](tokens, case["block_size"], **given)
        if last and last[-1][0] is made and last[-1][1] != list(made):
            raise NotPlain(OVERWRITTEN)
        last.append((made, list(made)))
        return [name.hex() if type(name) is bytes else {"type": type(name).__name__} for name in made]

    last: list[tuple[Any, list]] = []
    prompts = [(list(tokens), salt) for tokens, salt in case["prompts"]]
    found = [attempt(named, tokens, salt) for tokens, salt in prompts]
    return {"names": found, "given": attempt(lambda: [tokens for tokens, _ in prompts])}


def _name(i: int) -> bytes:
    return f"name of block {i}".encode()


def hits(objects: dict[str, Any], case: dict) -> dict:
    blocks = {_name(int(i)): KVCacheBlock(block_id) for i, block_id in case["cached"].items()}
    there = {id(block) for block in blocks.values()}
    given = [_name(i) for i in range(case["full"])]

    def ask() -> list[Any]:
        found = objects["longest_hit"](given, case["num_tokens"], case["block_size"], blocks.get)
        before, names = list(found), [_name(i) for i in range(case["full"])]
        objects["longest_hit"](names, case["num_tokens"], case["block_size"], lambda name: None)
        if list(found) != before:
            raise NotPlain(OVERWRITTEN)
        return [block.block_id if id(block) in there else f"a copy of {block.block_id}" for block in found]

    return {"found": attempt(ask), "given": attempt(lambda: [name.decode() for name in given])}


PROBES = {"07.1": queue, "07.2": names, "07.3": hits, "07.4": pool, "07.5": values}
