"""How the answers of exercise 06 are asked for."""

from __future__ import annotations

from typing import Any

from pagedlab.grading.plain import attempt, failed
from pagedlab.kv import KVCacheBlock
from pagedlab.kv.paper import BlockAllocator


class _Refused(BaseException):
    """A ValueError on its way out of ``attempt``."""


def _outcome(call: Any, *args: Any) -> Any:
    """What a call gave; "ValueError" where it raised that one."""

    def through() -> Any:
        try:
            return call(*args)
        except ValueError:
            raise _Refused from None

    try:
        return attempt(through)
    except _Refused:
        return "ValueError"


def allocator(objects: dict[str, Any], case: dict) -> dict:
    """Every operation's result, and after it the owners of every block and the free ones, the bottom one first."""
    try:
        allocator = objects["BlockAllocator"](case["num_blocks"])
    except Exception as error:
        return {"steps": failed(error)}
    steps = []
    for name, *block in case["operations"]:
        if name == "share":
            allocator.blocks[block[0]].ref_cnt += 1
            result: Any = "shared"
        elif name == "allocate":
            result = _outcome(lambda: allocator.allocate().block_id)
        else:
            result = _outcome(lambda b=block[0]: (allocator.free(allocator.blocks[b]), None)[1])
        owners = attempt(lambda: [block.ref_cnt for block in allocator.blocks])
        free = attempt(lambda: [block.block_id for block in allocator.free_blocks])
        steps.append({"result": result, "owners": owners, "free": free})
    return {"steps": steps}


def fork(objects: dict[str, Any], case: dict) -> dict:
    table = []
    for block_id, owners in zip(case["table"], case["owners"], strict=True):
        block = KVCacheBlock(block_id)
        block.ref_cnt = owners
        table.append(block)
    parent, child = list(table), None

    def call() -> list[int]:
        nonlocal child
        child = objects["fork"](parent)
        return [block.block_id for block in child]

    answer = {"child": attempt(call)}
    answer["records"] = attempt(lambda: type(child) is list and all(any(b is own for own in table) for b in child))
    answer["owners"] = attempt(lambda: [block.ref_cnt for block in table])
    answer["list"] = attempt(lambda: child is not parent)
    answer["parent"] = attempt(lambda: [block.block_id for block in parent])
    return answer


def append(objects: dict[str, Any], case: dict) -> dict:
    """Turn by turn: what append_slot returned, and all tables, owners and free blocks after it."""
    size, width = case["block_size"], case["width"]
    needed = -(-case["num_tokens"] // size)
    allocator = BlockAllocator(needed + case["spare"])
    shared = [allocator.allocate() for _ in range(needed)]
    for block in shared:
        block.ref_cnt = width
    tables = [list(shared) for _ in range(width)]
    lengths = [case["num_tokens"]] * width
    steps = []
    for s in case["turns"]:
        result = _outcome(objects["append_slot"], tables[s], lengths[s] + 1, size, allocator)
        steps.append(
            {
                "result": result,
                "tables": attempt(lambda: [[block.block_id for block in table] for table in tables]),
                "owners": attempt(lambda: [block.ref_cnt for block in allocator.blocks]),
                "free": attempt(allocator.get_free_block_ids),
            }
        )
        if result == "ValueError":
            break  # a scheduler would throw somebody out now
        lengths[s] += 1
    return {"steps": steps}


def prediction(objects: dict[str, Any], case: dict) -> dict:
    return {name: attempt(lambda value=value: value) for name, value in objects.items()}


PROBES = {"06.1": allocator, "06.2": fork, "06.3": append, "06.4": prediction}
