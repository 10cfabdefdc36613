"""Part 07.1: a free queue that lets go of a block wherever it stands."""

from __future__ import annotations

import random
from itertools import permutations
from typing import Any

from pagedlab.grading.part import OfErrors, Part, Property
from pagedlab.grading.plain import raised, same, show
from pagedlab.grading.tasks.ex07 import probes
from pagedlab.grading.tasks.ex07.queue import play
from pagedlab.kv import FreeKVCacheBlockQueue

LONG, FEW_LOOKS = 400, 60


def _cases(rng: random.Random, seed: int) -> list[dict]:
    cases: list[tuple[int, list]] = [
        (3, [["popleft_n", 1], ["popleft_n", 2]]),
        (4, [["remove", 1], ["popleft_n", 3]]),
        (3, [["remove", 0], ["remove", 2], ["popleft_n", 1]]),
        (3, [["popleft_n", 3], ["append_n", [1, 0]], ["append_n", [2]], ["popleft_n", 3]]),
        (3, [["popleft_n", 2], ["prepend_n", [1, 0]], ["popleft_n", 3]]),
        (2, [["popleft_n", 3], ["popleft_n", 2], ["popleft_n", 1], ["append_n", [0]]]),
        (3, [["remove", 1], ["remove", 1], ["popleft_n", 1], ["remove", 0]]),
        (3, [["remove", 1], ["prepend_n", [1]], ["remove", 1], ["append_n", []]]),
        (2, [["popleft_n", 2], ["prepend_n", []], ["append_n", []], ["popleft_n", 0], ["prepend_n", [1, 0]]]),
        (0, [["popleft_n", 0], ["popleft_n", 1], ["append_n", []]]),
        (3, [["popleft_n", 0], ["popleft_n", 2]]),
    ]
    # What was put in or left behind is taken apart again, from every side.
    for left in range(3):
        for first in (["append_n", [4, 3]], ["prepend_n", [4, 3]], ["remove", 3], ["popleft_n", 2]):
            blocks = [*range(left), 3, 4] if first[0] == "remove" else list(range(5 - 2 * (first[0] == "popleft_n")))
            before = [["remove", block] for block in range(5) if block not in blocks] if first[0] == "remove" else []
            if first[0] in ("append_n", "prepend_n"):
                before, blocks = [["popleft_n", 5], ["append_n", list(range(left))]], [*range(left), 4, 3]
            elif first[0] == "remove":
                blocks.remove(3)
            else:
                before, blocks = [["remove", block] for block in range(left + 2, 5)], list(range(2, left + 2))
            for order in list(permutations(blocks))[:6]:
                cases.append((5, [*before, first, *(["remove", block] for block in order), ["append_n", [0]]]))
    cases.append((130, [["popleft_n", 100], ["prepend_n", [7, 99]], ["popleft_n", 32]]))
    cases += [_random_case(rng, 3 + i // 3, 6 + i) for i in range(16)]
    for draw in (random.Random("07.1"), rng):
        cases.append((LONG, [["remove", block] for block in draw.sample(range(150, 250), 2)]))
    return [{"num_blocks": num_blocks, "operations": operations} for num_blocks, operations in cases]


def _random_case(rng: random.Random, num_blocks: int, length: int) -> tuple[int, list]:
    free, used, operations = list(range(num_blocks)), [], []
    for _ in range(length):
        kind = rng.choice(("popleft_n", "remove", "append_n", "prepend_n"))
        if kind == "popleft_n":
            n = rng.randint(0, len(free))
            used += free[:n]
            del free[:n]
            operations.append([kind, n])
        elif kind == "remove" and free:
            used.append(free.pop(rng.randrange(len(free))))
            operations.append([kind, used[-1]])
        elif kind in ("append_n", "prepend_n"):
            blocks = rng.sample(used, rng.randint(0, len(used)))
            used = [block for block in used if block not in blocks]
            free = free + blocks if kind == "append_n" else blocks + free
            operations.append([kind, blocks])
    return num_blocks, operations


def _difference(case: dict, answer: dict) -> tuple[str, str] | None:
    """The first thing that is otherwise than with pagedlab's queue: which promise it breaks, and the story."""
    if raised(answer):
        return "made", f"FreeQueue of {case['num_blocks']} blocks gave {show(answer)}"
    right_steps = play(FreeKVCacheBlockQueue, case)["steps"]
    story = [f"blocks 0 to {case['num_blocks'] - 1}" if case["num_blocks"] else "no blocks"]
    for operation, mine, right in zip([None, *case["operations"]], answer["steps"], right_steps, strict=True):
        if operation:
            story.append(f"{operation[0]}({operation[1]})")
        found = _wrong(operation[0] if operation else "made", mine, right)
        if found:
            return found[0], f"{', '.join(story)}: {found[1]}"
    return None


def _wrong(name: str, mine: dict, right: dict) -> tuple[str, str] | None:
    queue = f"the queue is {show(mine['queue'])}"
    if name != "made" and not same(mine["result"], right["result"]):
        kind = "refused" if right["result"] == "ValueError" else name
        expected = "nothing is raised" if right["result"] is None else right["result"]
        return kind, f"expected of the last one is {expected}, found {show(mine['result'])}; {queue}"
    if not same(mine["queue"], right["queue"]):
        kind = "refused" if name != "made" and right["result"] == "ValueError" else name
        return kind, f"expected is the queue {right['queue']}, found {show(mine['queue'])}"
    if mine["back"] is not None and mine["back"] != mine["queue"][::-1]:
        expected = mine["queue"][::-1]
        return "back", f"{queue}; from the tail backwards, expected is {expected}, found {mine['back']}"
    if mine["linked"]:
        return "links", f"{queue}; block {mine['linked'][0]} is not in it and still has a link to another one"
    if not same(mine["count"], right["count"]):
        return "count", f"{queue}; expected is num_free_blocks {right['count']}, found {show(mine['count'])}"
    if name in ("append_n", "prepend_n") and not same(mine["given"], right["given"]):
        return "given", f"the list that was handed in was {right['given']} and is {show(mine['given'])} now"
    return None


def _only(*kinds: str) -> Any:
    def broken(case: dict, answer: dict) -> str | None:
        difference = _difference(case, answer)
        if difference is None or difference[0] not in kinds:
            return None
        return OfErrors(difference[1]) if difference[0] == "refused" or raised(answer) else difference[1]

    return broken


def _own(case: dict, answer: dict) -> str | None:
    if not same(answer["beside"], answer["steps"][0]["queue"]):
        return (
            f"a queue held {show(answer['steps'][0]['queue'])}; another one was made, and it holds {answer['beside']}"
        )
    if same(answer["other"], [0, 1]):
        return None
    return f"beside it a queue of blocks 0 and 1 was made and left alone; it holds {show(answer['other'])}"


def _quick(case: dict, answer: dict) -> str | None:
    if case["num_blocks"] < LONG:
        return None
    most = max(step["looks"] for step in answer["steps"][1:])
    return None if most <= FEW_LOOKS else f"to remove one of {LONG} blocks took {most} looks and lines of code"


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
            "a queue has its blocks for itself",
            _own,
            ("What belongs to one queue is kept in self: what stands in the class or outside of it is everybody's.",),
        ),
        Property(
            "every block in the queue knows both of its neighbours",
            _only("back"),
            (
                "A link goes both ways: where one block's next_free_block changes, another one's prev_free_block does.",
                "Follow the queue from its tail backwards after that operation. Whose prev_free_block was left alone?",
            ),
        ),
        Property(
            "popleft_n takes blocks from the head, in queue order",
            _only("popleft_n"),
            (
                "The first block is head.next_free_block. popleft_n returns a list of blocks, even for one.",
                "Blocks are handed out themselves, not others with their number. Is the next one the first then?",
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
        Property(
            "a block that is not in the queue has no links",
            _only("links"),
            ("prev_free_block and next_free_block are both None then, however the block came out.",),
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
            "the lists that are handed in stay as they are",
            _only("given"),
            ("They are the caller's: go through them, and take nothing out of them.",),
        ),
        Property(
            "remove looks at few blocks, however long the queue is",
            _quick,
            ("list.remove and deque.remove walk from the head. A block knows its neighbours by itself.",),
        ),
    ),
)
