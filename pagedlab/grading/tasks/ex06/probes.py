"""How the answers of exercise 06 are asked for."""

from __future__ import annotations

from typing import Any

from pagedlab.grading.plain import attempt, failed
from pagedlab.kv import KVCacheBlock
from pagedlab.kv.paper import BlockAllocator


class _Refused(BaseException):
    """A ValueError on its way out of ``attempt``."""


def _outcome(call: Any, *args: Any) -> dict:
    """{"returned": what a call gave}, or {"refused": True} where it raised ValueError."""

    def through() -> Any:
        try:
            return call(*args)
        except ValueError:
            raise _Refused from None

    try:
        return {"returned": attempt(through)}
    except _Refused:
        return {"refused": True}


def allocator(objects: dict[str, Any], case: dict) -> dict:
    """Every operation's result, and after it the owners of every block and the free ones, the bottom one first. Another
    allocator is there all the while, and nothing is done to it."""
    try:
        allocator, other = (objects["BlockAllocator"](case["num_blocks"]) for _ in range(2))
        records = list(getattr(allocator, "blocks", ()))
    except Exception as error:
        return {"steps": failed(error)}
    steps = []
    for name, *block in case["operations"]:
        if name == "share":
            allocator.blocks[block[0]].ref_cnt += 1
            result = {"returned": None}
        elif name == "allocate":
            result = _outcome(lambda: _number(allocator.allocate(), records))
        else:
            result = _outcome(lambda b=block[0]: (allocator.free(allocator.blocks[b]), None)[1])
        owners = attempt(lambda: [block.ref_cnt for block in allocator.blocks])
        free = attempt(lambda: [block.block_id for block in allocator.free_blocks])
        steps.append({"result": result, "owners": owners, "free": free})
    return {"steps": steps, "other": attempt(lambda: [[b.block_id, b.ref_cnt] for b in other.free_blocks])}


def _number(block: Any, records: list[Any]) -> int | str:
    """A record's block number; in words where the record is another one than the pool's."""
    return block.block_id if any(block is own for own in records) else f"another record of block {block.block_id}"


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
                "tables": attempt(lambda: [[_number(block, allocator.blocks) for block in table] for table in tables]),
                "owners": attempt(lambda: [block.ref_cnt for block in allocator.blocks]),
                "free": attempt(allocator.get_free_block_ids),
            }
        )
        if "refused" in result:
            break  # a scheduler would throw somebody out now
        lengths[s] += 1
    return {"steps": steps}


def prediction(objects: dict[str, Any], case: dict) -> dict:
    return {name: attempt(lambda value=value: value) for name, value in objects.items()}


PROBES = {"06.1": allocator, "06.2": fork, "06.3": append, "06.4": prediction}
