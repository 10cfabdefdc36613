"""Part 06.1: an allocator that counts owners."""

from __future__ import annotations

import random
from typing import Any

from pagedlab.grading.draws import twice
from pagedlab.grading.part import OfErrors, Part, Property
from pagedlab.grading.plain import raised, same, show
from pagedlab.grading.tasks.ex06 import probes
from pagedlab.kv.paper import BlockAllocator


def _cases(rng: random.Random, seed: int) -> list[dict]:
    """Operations on blocks by number: allocate, share (one owner more), free. The first cases are short stories."""
    cases = [
        {"num_blocks": 3, "operations": [["allocate"], ["allocate"]]},
        {"num_blocks": 3, "operations": [["allocate"], ["free", 2], ["allocate"]]},
        {"num_blocks": 3, "operations": [["allocate"], ["share", 2], ["free", 2], ["allocate"], ["free", 2]]},
        {"num_blocks": 1, "operations": [["allocate"], ["allocate"], ["free", 0], ["allocate"]]},
        {"num_blocks": 3, "operations": [["allocate"], ["free", 2], ["free", 2], ["allocate"], ["allocate"]]},
    ]
    shared = {"num_blocks": 2, "operations": [["allocate"], *[["share", 1]] * 20, *[["free", 1]] * 22, ["allocate"]]}
    large = {"num_blocks": 50, "operations": [*[["allocate"]] * 45, ["free", 30], ["free", 7], ["allocate"]]}
    return [*cases, *twice(_drawn, rng, "06.1"), shared, large]


def _drawn(rng: random.Random) -> list[dict]:
    return [_random_work(rng, 2 + i // 4, 6 + i) for i in range(16)]


def _random_work(rng: random.Random, num_blocks: int, count: int) -> dict:
    free, owners = list(range(num_blocks)), {}
    operations: list[list] = []
    for _ in range(count):
        kind = rng.choice(("allocate", "allocate", "share", "free", "free"))
        if kind == "allocate":
            if free:
                owners[free.pop()] = 1
            operations.append([kind])
        elif kind == "share" and owners:
            block = rng.choice(list(owners))
            owners[block] += 1
            operations.append([kind, block])
        elif kind == "free":
            block = rng.randrange(num_blocks) if rng.random() < 0.2 or not owners else rng.choice(list(owners))
            operations.append([kind, block])
            if block in owners:
                owners[block] -= 1
                if owners[block] == 0:
                    del owners[block]
                    free.append(block)
    return {"num_blocks": num_blocks, "operations": operations}


def _reference(case: dict) -> list[dict]:
    return probes.allocator({"BlockAllocator": BlockAllocator}, case)["steps"]


def _difference(case: dict, answer: dict) -> tuple[str, str] | None:
    """The first step that went otherwise than with the reference: which promise that breaks, and the story so far."""
    if raised(answer["steps"]):
        return "made", f"BlockAllocator({case['num_blocks']}) gave {show(answer['steps'])}"
    calls = []
    for operation, mine, right in zip(case["operations"], answer["steps"], _reference(case), strict=True):
        name, *block = operation
        calls.append(name if not block else f"{name} #{block[0]}")
        if same(mine, right):
            continue
        story = f"{case['num_blocks']} blocks; {', '.join(calls)}"
        result = f"the last of these gave {result_text(mine['result'])}; expected {result_text(right['result'])}"
        owners = f"then the blocks have {show(mine['owners'])} owners; expected {right['owners']}"
        free = f"then free are {show(mine['free'])}; expected {right['free']}"
        if not same(mine["result"], right["result"]):
            kind, what = name, result
        elif not same(mine["owners"], right["owners"]):
            kind, what = f"{name} owners", owners
        else:
            kind, what = f"{name} free", free
        return "refused" if "refused" in right["result"] else kind, f"{story}: {what}"
    return None


def result_text(result: dict) -> str:
    """What a call gave, in words."""
    return "a ValueError" if "refused" in result else show(result["returned"])


def _other(case: dict, answer: dict) -> str | None:
    untouched = [[i, 0] for i in range(case["num_blocks"])]
    if same(answer["other"], untouched):
        return None
    return f"after work on one allocator, another's free blocks and their owners are {show(answer['other'])}"


def _only(*kinds: str) -> Any:
    def broken(case: dict, answer: dict) -> str | None:
        difference = _difference(case, answer)
        if difference is None or difference[0] not in kinds:
            return None
        return OfErrors(difference[1]) if difference[0] in ("made", "refused") else difference[1]

    return broken


ALLOCATOR = Part(
    "06.1",
    "an allocator that counts owners",
    3,
    ("BlockAllocator",),
    _cases,
    probes.allocator,
    (
        Property("an allocator is made with BlockAllocator(num_blocks)", _only("made"), ("Leave __init__ as it is.",)),
        Property(
            "allocate takes the block at the end of free_blocks and returns it",
            _only("allocate", "allocate free"),
            (
                "The free blocks are a stack: the last one in is the first one out.",
                "What stands there is the record itself. It is asked for, not its number, and no other record.",
                "list.pop() takes the last one away and returns it.",
            ),
        ),
        Property(
            "a block that is handed out has one owner",
            _only("allocate owners"),
            ("ref_cnt counts the tables that hold the block. Who asked for it puts it into one.",),
        ),
        Property(
            "free takes one owner away, of this block alone",
            _only("free", "free owners", "share", "share owners", "share free"),
            ("Somebody else may hold the block still: look at ref_cnt, and do not set it, change it.",),
        ),
        Property(
            "a block goes back on top of the stack when its last owner gives it back, and not before",
            _only("free free"),
            (
                "How many owners are left after this one is gone?",
                "Only at ref_cnt 0 is a block free. Then it goes where allocate takes from.",
            ),
        ),
        Property("each allocator has blocks of its own", _other, ("What __init__ makes belongs to self.",)),
        Property(
            "what cannot be done raises ValueError and changes nothing",
            _only("refused"),
            (
                "Two things cannot be done: to take a block where none is free, and to give back one that is free.",
                "Look first, then change. pop on an empty list raises another error; nobody has a ref_cnt of -1.",
            ),
        ),
    ),
)
