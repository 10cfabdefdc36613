"""Part 07.1: a free queue that lets go of a block wherever it stands."""

from __future__ import annotations

import random
from typing import Any

from pagedlab.grading.part import OfErrors, Part, Property
from pagedlab.grading.plain import is_int, raised, same, show
from pagedlab.grading.tasks.ex07 import probes
from pagedlab.grading.tasks.ex07.queue import play
from pagedlab.kv import FreeKVCacheBlockQueue

LONG, FEW_LOOKS = 400, 16

def _cases(rng: random.Random, seed: int) -> list[dict]:
    cases = [
        {"num_blocks": 3, "operations": [["popleft_n", 1], ["popleft_n", 2]]},
        {"num_blocks": 4, "operations": [["remove", 1], ["popleft_n", 3]]},
        {"num_blocks": 3, "operations": [["remove", 0], ["remove", 2], ["popleft_n", 1]]},
        {"num_blocks": 3, "operations": [["popleft_n", 3], ["append_n", [1, 0]], ["append_n", [2]], ["popleft_n", 3]]},
        {"num_blocks": 3, "operations": [["popleft_n", 2], ["prepend_n", [1, 0]], ["popleft_n", 3]]},
        {"num_blocks": 2, "operations": [["popleft_n", 3], ["popleft_n", 2], ["popleft_n", 1], ["append_n", [0]]]},
        {"num_blocks": 3, "operations": [["remove", 1], ["remove", 1], ["popleft_n", 1], ["remove", 0]]},
        {"num_blocks": 3, "operations": [["remove", 1], ["prepend_n", [1]], ["remove", 1], ["append_n", []]]},
    ]
    for i in range(16):
        free, used = list(range(3 + i // 3)), []
        case: dict = {"num_blocks": len(free), "operations": []}
        for _ in range(6 + i):
            kind = rng.choice(("popleft_n", "remove", "append_n", "prepend_n"))
            if kind == "popleft_n":
                n = rng.randint(0, len(free))
                used += free[:n]
                del free[:n]
                case["operations"].append([kind, n])
            elif kind == "remove" and free:
                used.append(free.pop(rng.randrange(len(free))))
                case["operations"].append([kind, used[-1]])
            elif kind in ("append_n", "prepend_n"):
                blocks = rng.sample(used, rng.randint(0, len(used)))
                used = [block for block in used if block not in blocks]
                free = free + blocks if kind == "append_n" else blocks + free
                case["operations"].append([kind, blocks])
        cases.append(case)
    cases.append({"num_blocks": LONG, "operations": [["remove", rng.randint(150, 250)] for _ in range(2)]})
    return cases


def _difference(case: dict, answer: dict) -> tuple[str, str] | None:
    if raised(answer):
        return "made", f"FreeQueue of {case['num_blocks']} blocks gave {show(answer)}"
    told = [f"blocks 0 to {case['num_blocks'] - 1}"]
    for (name, what), mine, right in zip(
        case["operations"], answer["steps"], play(FreeKVCacheBlockQueue, case), strict=True
    ):
        told.append(f"{name}({what})")
        story = f"{', '.join(told)}: "
        if not same([mine["result"], mine["queue"]], [right["result"], right["queue"]]):
            kind = "refused" if right["result"] == "ValueError" else name
            gave = "" if mine["result"] is None else f"the last one gave {show(mine['result'])}, and "
            return kind, f"{story}{gave}the queue is {show(mine['queue'])}"
        if not same(mine["count"], right["count"]):
            return "count", f"{story}the queue is {show(mine['queue'])}, and num_free_blocks {show(mine['count'])}"
    return None


def _only(kind: str) -> Any:
    def broken(case: dict, answer: dict) -> str | None:
        difference = _difference(case, answer)
        if difference is None or difference[0] != kind:
            return None
        return OfErrors(difference[1]) if kind in ("made", "refused") else difference[1]

    return broken


def _quick(case: dict, answer: dict) -> str | None:
    most = max((step["looks"] for step in answer["steps"]), default=0)
    if case["num_blocks"] < LONG or (is_int(most) and most <= FEW_LOOKS):
        return None
    return f"to remove one of {LONG} blocks, blocks were looked at {most} times"


QUEUE = Part(
    "07.1",
    "a free queue that lets go of any block at once",
    3,
    ("FreeQueue",),
    _cases,
    probes.queue,
    (
        Property(
            "a queue is made of the blocks that it is given",
            _only("made"),
            ("__init__ calls append_n. Does your append_n work on an empty queue?",),
        ),
        Property(
            "popleft_n takes blocks from the head, in queue order",
            _only("popleft_n"),
            (
                "The first block is head.next_free_block. popleft_n returns a list of blocks, even for one.",
                "After the last one taken comes the new first one. Does each of the two know of the other?",
                "Or was the queue wrong before? append_n made it: follow it from the tail backwards, too.",
            ),
        ),
        Property(
            "remove takes a block out, and its neighbours close ranks",
            _only("remove"),
            (
                "Draw three blocks and the links in both directions. Which two change when the middle one goes?",
                "Both neighbours still point at the block that went. And where does that one point, once it is out?",
            ),
        ),
        Property(
            "append_n puts blocks behind the last one, in their order",
            _only("append_n"),
            ("The last block is tail.prev_free_block. Every block that is put in needs a link on both sides.",),
        ),
        Property(
            "prepend_n puts blocks before the first one, in their order",
            _only("prepend_n"),
            (
                "prepend_n([7, 4]) on a queue 1, 2 makes 7, 4, 1, 2.",
                "To put one after the other at the head turns their order round.",
            ),
        ),
        Property("num_free_blocks is kept up", _only("count"), ("It changes in all four methods.",)),
        Property(
            "what cannot be done raises ValueError and changes nothing",
            _only("refused"),
            (
                "To take more blocks than there are, and to remove one that is not in the queue.",
                "Look before you change anything. By what does a block show that it stands in no queue?",
            ),
        ),
        Property(
            "remove looks at few blocks, however long the queue is",
            _quick,
            ("list.remove and deque.remove walk from the head. A block knows its neighbours by itself.",),
        ),
    ),
    answered_by=("FreeKVCacheBlockQueue", "KVCacheManager"),
)
