"""How a learner's pool is asked: operations one after the other, and what it holds after each."""

from __future__ import annotations

from typing import Any

from pagedlab.grading.plain import NOTHING_YET, attempt, failed, raised


def do(pool: Any, operation: list) -> Any:
    name, what = operation[:2]
    if name == "new":
        return [block.block_id for block in pool.get_new_blocks(what)]
    blocks = [pool.blocks[i] for i in what]
    if name == "name":
        pool.cache_full_blocks(blocks, [letter.encode() for letter in operation[2]], 0, len(blocks))
    elif name == "touch":
        pool.touch(blocks)
    else:
        pool.free_blocks(blocks)
    return None


def play(make: Any, case: dict) -> Any:
    """After each operation: its result, and for every block its owners and its name; the free queue; what is found."""
    try:
        pool = make(case["num_blocks"])
    except Exception as error:
        return failed(error)
    letters = [letter for operation in case["operations"] for letter in "".join(operation[2:])]
    steps = []
    for operation in case["operations"]:
        try:
            result = do(pool, operation)
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
                "free": attempt(lambda: [block.block_id for block in pool.free_block_queue.get_all_free_blocks()]),
                "found": attempt(lambda: [_id(pool.get_cached_block(letter.encode())) for letter in letters]),
            }
        )
    return steps


def _id(block: Any) -> int | None:
    return None if block is None else block.block_id


def pool(objects: dict[str, Any], case: dict) -> dict:
    steps = play(objects["BlockPool"], case)
    return steps if raised(steps) else {"steps": steps}
