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
        # With a name and without one in turn, two of each; the queue's head, middle and tail are taken by name.
        (7, [["new", 6], ["name", [2, 4, 6], "abc"], ["free", [6, 5, 4, 3, 2, 1]], ["touch", [4]], ["new", 3]]),
        (6, [["new", 5], ["name", [1, 2, 3], "abc"], ["free", [3, 2, 1]], ["touch", [1]], ["touch", [3]], ["new", 1]]),
        (6, [["new", 5], ["name", [1, 2, 3], "abc"], ["free", [3, 2, 1]], ["touch", [2]], ["new", 2]]),
        # Some of the blocks are in use and some wait, in one call; then some of them become free and some do not.
        (6, [["new", 3], ["name", [1, 2, 3], "abc"], ["free", [2]], ["touch", [1, 2, 3]], ["free", [3, 2]]]),
        (5, [["new", 2], ["touch", [1]], ["touch", [1]], ["free", [2, 1]], ["free", [1]], ["free", [1]], ["new", 4]]),
        # Two blocks with one name: one of them goes, and the other is still found.
        (4, [["new", 2], ["name", [1], "a"], ["name", [2], "a"], ["free", [1]], ["new", 2], ["free", [2]], ["new", 1]]),
        (4, [["new", 2], ["name", [1], "a"], ["name", [2], "a"], ["free", [2]], ["new", 2], ["free", [1]], ["new", 1]]),
        # What cannot be handed out leaves names and owners alone.
        (4, [["new", 3], ["name", [1, 2], "ab"], ["free", [2, 1]], ["new", 3], ["touch", [2]], ["new", 2], ["new", 1]]),
        (3, [["new", 0], ["free", []], ["touch", []], ["new", 2], ["new", 0], ["new", 1]]),
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
            tables.append([block.block_id for block in result])
        elif operation[0] == "touch":
            tables.append(list(operation[1]))
        elif operation[0] == "free":
            tables.remove(operation[1][::-1])
    return {"num_blocks": num_blocks, "operations": operations}


def _difference(case: dict, answer: dict) -> tuple[str, str] | None:
    if raised(answer):
        return "made", f"BlockPool({case['num_blocks']}) gave {show(answer)}"
    story = [f"{case['num_blocks']} blocks"]
    for operation, mine, right in zip(case["operations"], answer["steps"], play(BlockPool, case), strict=True):
        story.append(" ".join(map(str, operation)))
        if same(mine, right):
            continue
        kinds = ("result", "owners", "names", "found", "free", "kept")
        kind = next(key for key in kinds if not same(mine[key], right[key]))
        of = {
            "result": "of the last one",
            "found": f"under the names {', '.join(_letters(case))} the blocks",
            "owners": "of the blocks 0, 1, … the owners",
            "names": "of the blocks 0, 1, … the names",
            "free": "in the free queue",
            "kept": "in the lists that were handed out",
        }[kind]
        expected = "nothing is raised" if kind == "result" and right[kind] is None else right[kind]
        example = f"{', '.join(story)}: expected {of}: {expected}, found {show(mine[kind])}"
        if right["result"] == "ValueError":
            kind = "refused"
        if kind == "free" and operation[0] == "free" and set(map(str, mine[kind])) != set(map(str, right[kind])):
            kind = "who"
        elif kind == "free" and type(mine["names"]) is list:
            named = [f"#{i}" for i, name in enumerate(mine["names"]) if name]
            example += f"; {', '.join(named) or 'no block'} has a name" if len(named) < 2 else f"; {named} have names"
        return f"{operation[0]} {kind}", example
    return None


def _letters(case: dict) -> list[str]:
    return [letter for operation in case["operations"] for letter in "".join(operation[2:])]


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
            "get_new_blocks takes the blocks at the head of the queue, these themselves",
            _only("new result", "new free", "new kept"),
            (
                "The queue's popleft_n takes several at once, and returns them in a list.",
                "There is one record of each block. A list that was handed out is the caller's from then on.",
            ),
        ),
        Property(
            "where there are too few blocks, ValueError is raised and nothing has changed",
            _only("new refused"),
            ("popleft_n raises before it takes anything. What did you change before you asked it?",),
        ),
        Property(
            "each block that is handed out has one owner",
            _only("new owners"),
            ("Who gets a block owns it: what does ref_cnt say from now on?",),
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
            _only("touch owners"),
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
            _only("free owners", "free who"),
            ("One owner less for each. Somebody else may still read the block.",),
        ),
        Property(
            "freed blocks without a name go to the head, those with a name to the tail, each in the order given",
            _only("free free"),
            (
                "Nothing is lost when a block without a name is overwritten: let it be the next.",
                "Is every block that you put into the queue without an owner, and in it once only?",
                "Each end gets its blocks in the order given: what does putting them in one by one do to that order?",
            ),
        ),
        Property(
            "touch and free_blocks take what they are given, and leave the list as it is",
            _only("touch result", "free result"),
            (
                "The queue raises for a block that is not in it. Which of the blocks are?",
                "The list is the caller's: go through it, and take nothing out of it.",
            ),
        ),
        Property("everything else stays as it was", _any, ("Change only what the text says.",)),
    ),
)
