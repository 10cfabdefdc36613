"""How a learner's pool is asked: operations one after the other, and what it holds after each."""

from __future__ import annotations

from typing import Any

from pagedlab.grading.plain import NOTHING_YET, attempt, failed, raised


def do(pool: Any, operation: list) -> Any:
    name, what = operation[:2]
    if name == "new":
        taken = pool.get_new_blocks(what)
        return taken if type(taken) is list else list(taken)
    blocks = [pool.blocks[i] for i in what]
    if name == "name":
        pool.cache_full_blocks(blocks, [letter.encode() for letter in operation[2]], 0, len(blocks))
    elif name == "touch":
        pool.touch(blocks)
    else:
        pool.free_blocks(blocks)
    return None if [block.block_id for block in blocks] == what else "the list that was handed in is another one now"


def play(make: Any, case: dict) -> Any:
    """After each operation: its result, and for every block its owners and its name; the free queue; what is found."""
    try:
        pool = make(case["num_blocks"])
    except Exception as error:
        return failed(error)
    letters = [letter for operation in case["operations"] for letter in "".join(operation[2:])]
    steps, handed_out = [], []
    for operation in case["operations"]:
        try:
            result = do(pool, operation)
            if type(result) is list:
                handed_out.append(result)
                result = _ids(pool, result)
        except NotImplementedError:
            return {"raised": NOTHING_YET}
        except ValueError:
            result = "ValueError"
        except Exception as error:
            result = failed(error)
        steps.append(
            {
                "result": attempt(lambda value=result: value),
                "owners": attempt(lambda: [block.ref_cnt for block in pool.blocks]),
                "names": attempt(lambda: [(block.block_hash or b"").decode() for block in pool.blocks]),
                "free": attempt(lambda: _ids(pool, _free(pool.free_block_queue, case["num_blocks"]))),
                "found": attempt(lambda: [_found(pool, letter) for letter in letters]),
                "kept": attempt(lambda: [_ids(pool, blocks) for blocks in handed_out]),
            }
        )
    return steps


def _ids(pool: Any, blocks: list[Any]) -> list[Any]:
    """The blocks' numbers. A record that is not the pool's own one of this number is called a copy."""
    return [b.block_id if b is pool.blocks[b.block_id] else f"a copy of {b.block_id}" for b in blocks]


def _found(pool: Any, letter: str) -> Any:
    block = pool.get_cached_block(letter.encode())
    return None if block is None else _ids(pool, [block])[0]


def _free(queue: Any, num_blocks: int) -> list[Any]:
    """The free blocks. A queue that goes round in a circle, since a block was put in twice, is looked at once only."""
    block, found = getattr(getattr(queue, "_head", None), "next_free_block", None), []
    while block is not None and block.block_id >= 0:
        found.append(block)
        if len(found) > num_blocks:
            return found
        block = block.next_free_block
    return queue.get_all_free_blocks()


def pool(objects: dict[str, Any], case: dict) -> dict:
    steps = play(objects["BlockPool"], case)
    return steps if raised(steps) else {"steps": steps}
