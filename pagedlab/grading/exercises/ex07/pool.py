"""Part 07.4: the pool hands out, revives and takes back."""

from __future__ import annotations

import random
from typing import Any

from pagedlab.grading.part import OfErrors, Part, Property
from pagedlab.grading.plain import raised, same, show
from pagedlab.grading.tasks.ex07 import probes
from pagedlab.grading.tasks.ex07.pool import do, play
from pagedlab.kv import BlockPool


def _cases(rng: random.Random, seed: int) -> list[dict]:
    """Operations on blocks by number. ``name``: they are full and get the names that are given."""
    stories: list[tuple[int, list]] = [
        (5, [["new", 2], ["free", [2, 1]]]),
        (5, [["new", 2], ["name", [1, 2], "ab"], ["free", [2, 1]], ["new", 3]]),
        (5, [["new", 2], ["name", [1], "a"], ["free", [2, 1]], ["touch", [1]], ["new", 3]]),
        (5, [["new", 2], ["name", [1], "a"], ["touch", [1]], ["free", [2, 1]], ["free", [1]]]),
        (4, [["new", 3], ["name", [1, 2], "ab"], ["free", [3, 2, 1]], ["new", 2], ["new", 1]]),
        (3, [["new", 1], ["name", [1], "a"], ["free", [1]], ["new", 3], ["new", 2]]),
    ]
    cases = [{"num_blocks": num_blocks, "operations": operations} for num_blocks, operations in stories]
    for i in range(18):
        cases.append(_random_case(rng, 4 + i // 3, 6 + i))
    return cases


def _random_case(rng: random.Random, num_blocks: int, length: int) -> dict:
    """What makes sense is asked of a real pool, in which every operation is played at once."""
    pool, operations, tables = BlockPool(num_blocks), [], []
    names = iter("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
    for _ in range(length):
        kind = rng.choice(("new", "name", "touch", "free", "free"))
        operation: list = []
        if kind == "new" and pool.get_num_free_blocks():
            operation = ["new", rng.randint(1, min(3, pool.get_num_free_blocks()))]
        elif kind == "name" and tables:
            blocks = [b for b in rng.choice(tables) if pool.blocks[b].block_hash is None and pool.blocks[b].ref_cnt]
            operation = ["name", blocks, "".join(next(names, "") for _ in blocks)] if blocks else []
        elif kind == "touch":
            named = [block.block_id for block in pool.blocks if block.block_hash is not None]
            operation = ["touch", rng.sample(named, rng.randint(1, min(2, len(named))))] if named else []
        elif kind == "free" and tables:
            operation = ["free", rng.choice(tables)[::-1]]
        if not operation or (operation[0] == "name" and len(operation[1]) != len(operation[2])):
            continue
        operations.append(operation)
        result = do(pool, operation)
        if operation[0] == "new":
            tables.append(result)
        elif operation[0] == "touch":
            tables.append(list(operation[1]))
        elif operation[0] == "free":
            tables.remove(operation[1][::-1])
    return {"num_blocks": num_blocks, "operations": operations}


def _difference(case: dict, answer: dict) -> tuple[str, str] | None:
    if raised(answer):
        return "made", f"BlockPool({case['num_blocks']}) gave {show(answer)}"
    told = [f"{case['num_blocks']} blocks"]
    for operation, mine, right in zip(case["operations"], answer["steps"], play(BlockPool, case), strict=True):
        told.append(" ".join(map(str, operation)))
        if same(mine, right):
            continue
        kind = next(key for key in ("result", "owners", "names", "found", "free") if not same(mine[key], right[key]))
        if right["result"] == "ValueError":
            kind = "refused"
        said = {"result": "the last one gave", "refused": "the last one gave", "found": "found by name are"}
        shown = mine["result"] if kind == "refused" else mine[kind]
        example = f"{', '.join(told)}: {said.get(kind, f'{kind} are')} {show(shown)}"
        if kind == "free" and type(mine["names"]) is list:
            named = [f"#{i}" for i, name in enumerate(mine["names"]) if name]
            example += f"; {', '.join(named) or 'no block'} has a name" if len(named) < 2 else f"; {named} have names"
        return f"{operation[0]} {kind}", example
    return None


def _only(*kinds: str) -> Any:
    def broken(case: dict, answer: dict) -> str | None:
        difference = _difference(case, answer)
        if difference is None or difference[0] not in kinds:
            return None
        return OfErrors(difference[1]) if difference[0] == "made" or "refused" in difference[0] else difference[1]

    return broken


def _any(case: dict, answer: dict) -> str | None:
    difference = _difference(case, answer)
    return difference[1] if difference else None


POOL = Part(
    "07.4",
    "the pool hands out, revives and takes back",
    3,
    ("BlockPool",),
    _cases,
    probes.pool,
    (
        Property("a pool is made with BlockPool(num_gpu_blocks)", _only("made"), ("Leave __init__ as it is.",)),
        Property(
            "get_new_blocks takes the head of the queue, and each block has one owner",
            _only("new result", "new owners", "new free", "new refused"),
            (
                "The queue's popleft_n takes several at once, and raises where there are too few.",
                "Who gets a block owns it: what does ref_cnt say from now on?",
            ),
        ),
        Property(
            "a block loses its name when it is handed out",
            _only("new names", "new found"),
            (
                "Its new owner will write other tokens into it. What would a request find under the old name?",
                "At which moment is the old name still good, and at which no longer?",
            ),
        ),
        Property(
            "to free a block is not to erase it",
            _only("free names", "free found", "touch names", "touch found"),
            ("The bytes are still there, and can be found until somebody overwrites them: the name stays.",),
        ),
        Property(
            "touch makes one owner more",
            _only("touch result", "touch owners"),
            ("One more than before: others may hold the block already.",),
        ),
        Property(
            "a block that nobody owned leaves the free queue when it is touched",
            _only("touch free"),
            (
                "It is in use again. What if it stayed in the queue?",
                "How do you tell, before you count it as yours, whether a block stands in the queue?",
            ),
        ),
        Property(
            "free_blocks takes one owner away, and only what nobody owns any more becomes free",
            _only("free result", "free owners"),
            ("One owner less for each. Somebody else may still read the block.",),
        ),
        Property(
            "freed blocks without a name go to the head, those with a name to the tail, each in the order given",
            _only("free free"),
            (
                "Nothing is lost when a block without a name is overwritten: let it be the next.",
                "Is every block that you put into the queue without an owner?",
                "Each end gets its blocks in the order given: what does putting them in one by one do to that order?",
            ),
        ),
        Property("everything else stays as it was", _any, ("Change only what the text says.",)),
    ),
    answered_by=("KVCacheManager",),
)
