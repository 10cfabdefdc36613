"""Part 08.3: every running request gets its next tokens; where there is no room, somebody makes it."""

from __future__ import annotations

import random
from collections import deque
from itertools import pairwise
from typing import Any

from pagedlab.engine.scheduler import Scheduler, SchedulerOutput
from pagedlab.grading.part import Part, Property
from pagedlab.grading.plain import raised, same, show
from pagedlab.grading.tasks.ex08 import probes
from pagedlab.grading.tasks.ex08.step import play


def _cases(rng: random.Random, seed: int) -> list[dict]:
    """``running``: for each, in order of admission, (tokens in memory, tokens that wait to be computed)."""
    cases = [  # block size, spare blocks, running, those who wait, steps
        (4, 2, [(3, 1), (5, 1)], 0, 2),  # nobody is in the way
        (4, 0, [(4, 1), (6, 1)], 1, 1),  # the last makes room for the first
        (4, 0, [(6, 1), (4, 1)], 1, 1),  # it needs the room itself
        (4, 0, [(4, 1), (8, 1), (5, 1)], 0, 1),  # one victim is enough for two
        (4, 0, [(4, 9), (6, 1), (3, 1), (2, 1)], 2, 1),  # one is not enough
        (4, 0, [(4, 1), (3, 1), (4, 1), (2, 1)], 1, 3),
        (2, 1, [(2, 1), (4, 1), (6, 1), (3, 1)], 2, 6),
        (4, 0, [(4, 1)], 1, 1),  # alone, and no room
        (4, 1, [], 1, 1),  # nobody runs
        (4, 0, [(3, 1), (5, 20), (4, 1), (2, 1)], 1, 1),  # from the middle: all behind it go, then it goes itself
        (4, 0, [(3, 1), (2, 2), (7, 1)], 0, 1),  # the last block has room for everybody's token
        (4, 1, [(4, 1), (8, 1), (3, 1), (2, 1)], 2, 1),  # the free block goes to the first, the second needs a victim
        (1, 0, [(2, 1), (3, 2), (2, 1), (4, 1)], 1, 2),
        (4, 3, [(5, 9), (3, 6), (4, 4)], 0, 1),  # several tokens each
        (4, 0, [(4, 5), (2, 1), (3, 1), (2, 1), (1, 1)], 1, 1),  # two are enough, and two stay
        (4, 3, [(4 - i % 3, 1) for i in range(15)], 1, 1),  # many
        (4, 0, [(4, 30), *[(2 + i % 3, 1) for i in range(14)]], 1, 1),  # many make room
    ]
    for i in range(17):
        size = (4, 2, 3, 1, 8)[i % 5]
        waiting_tokens = [1, 1, 1, rng.randint(1, 2 * size)]
        running = [(rng.randint(1, 4 * size), rng.choice(waiting_tokens)) for _ in range(2 + i % 5)]
        cases.append((size, rng.randint(0, 2), running, rng.randint(0, 2), 1 + i // 3))
    names = ("block_size", "spare", "running", "waiting", "steps")
    return [
        # Some of them were thrown out before.
        dict(zip(names, case, strict=True))
        | {"caching": i % 2 == 0, "before": [(0, 1, 7)[(i + j) % 3] for j in range(len(case[2]))]}
        for i, case in enumerate(cases)
    ]


def package_step(running: list, waiting: deque, manager: Any) -> tuple[list, list]:
    """The same with pagedlab's scheduler."""
    scheduler = Scheduler(manager, max_num_seqs=99, max_num_batched_tokens=10_000, max_model_len=10_000)
    scheduler.running, scheduler.waiting = running, waiting
    output, by_id = SchedulerOutput(), {request.request_id: request for request in running}
    scheduler._schedule_running(output, 10_000)
    blocks = manager.block_pool.blocks
    return [(by_id[r], [blocks[b] for b in ids]) for r, ids in output.new_block_ids.items()], output.preempted


def _difference(case: dict, answer: dict) -> tuple[str, str] | None:
    """The first step that went otherwise than with pagedlab's scheduler: which promise it breaks, and the story."""
    held = [(computed, pending) for computed, pending in case["running"]]
    for number, (mine, right) in enumerate(zip(answer["steps"], play(package_step, case), strict=False)):
        if same(_outcome(mine), _outcome(right)):
            held = [(right["computed"][r], 1) for r in right["running"]]
            names, free = right["running"], len(right["free"])
            continue
        if number == 0:
            names, free = [chr(65 + i) for i in range(len(held))], case["spare"]
        who = ", ".join(f"{name} {done}+{new}" for name, (done, new) in zip(names, held, strict=True))
        story = (
            f"blocks of {case['block_size']}, {free} free, running (tokens in memory + new ones): {who or 'nobody'}; "
        )
        return _which(mine, right, story)
    return None if len(answer["steps"]) == len(play(package_step, case)) else ("shape", "the run ended too early")


def _outcome(step: dict) -> dict:
    """What counts: not how often the manager was asked."""
    return {name: value for name, value in step.items() if name != "asked"}


def _which(mine: dict, right: dict, story: str) -> tuple[str, str]:
    returned, true = mine["returned"], right["returned"]
    if taken := _taken_for_none(mine):
        return "empty", f"{story}allocate_slots gave {taken[0]} {taken[2]}, and {taken[3]} was thrown out nevertheless"
    if raised(returned):
        return "shape", f"{story}schedule_running gave {show(returned)}"
    if tokens := _other_tokens(mine, right):
        return "tokens asked", f"{story}of allocate_slots, expected is {tokens[0]}, found {tokens[1]}"

    def differ(name: str, found: Any, expected: Any) -> str | None:
        return None if same(found, expected) else f"{story}expected {name} is {show(expected)}, found {show(found)}"

    served, wanted = ([name for name, _ in lists["scheduled"]] for lists in (returned, true))
    for kind, difference in (
        ("victims", differ("preempted", returned["preempted"], true["preempted"])),
        ("scheduled", differ("scheduled", served, wanted)),
        ("running", differ("running", mine["running"], right["running"])),
        ("zero", differ("num_computed_tokens", mine["computed"], right["computed"])),
        ("tokens", differ("the number of tokens held", *(_lengths(step["tokens"]) for step in (mine, right)))),
        ("status", differ("status and number of preemptions", mine["status"], right["status"])),
        ("queue", differ("the waiting queue, head first,", mine["waiting"], right["waiting"])),
        ("given", differ("scheduled, with the new blocks,", returned["scheduled"], true["scheduled"])),
    ):
        if difference:
            return kind, difference
    return "blocks", f"{story}expected are the tables {right['tables']}, found {mine['tables']}"


def _lengths(tokens: dict) -> dict:
    return {name: len(held) for name, held in tokens.items()}


def _taken_for_none(mine: dict) -> tuple | None:
    """(request, tokens, the blocks that it got, whose blocks were given back then), where a list was taken for None."""
    for before, after in pairwise(mine["asked"]):
        if len(before) == 3 and before[2] is not None and len(after) == 1:
            return (*before, *after)
    return None


def _other_tokens(mine: dict, right: dict) -> tuple[str, str] | None:
    """Where somebody was asked for with another number of tokens for the first time."""
    wanted = {request[0]: request[1] for request in right["asked"] if len(request) == 3}
    for request in mine["asked"]:
        if len(request) == 3 and request[1] != wanted.get(request[0], request[1]):
            return f"{wanted[request[0]]} tokens for {request[0]}", str(request[1])
    return None


def _only(kind: str) -> Any:
    def broken(case: dict, answer: dict) -> str | None:
        difference = _difference(case, answer)
        return difference[1] if difference and difference[0] == kind else None

    return broken


STEP = Part(
    "08.3",
    "a scheduler step that preempts",
    3,
    ("schedule_running",),
    _cases,
    probes.step,
    (
        Property(
            "an empty list of new blocks is room, too: only None means that there is none",
            _only("empty"),
            (
                "The last block had room for the token: nothing new was needed, so the list is empty.",
                "An empty list is false in an if, as None is. Ask for None by name.",
            ),
        ),
        Property(
            "schedule_running returns two lists: (request, new blocks) pairs, and requests",
            _only("shape"),
            (
                "return scheduled, preempted.",
                "free raises for a request that holds no blocks. Has somebody been thrown out twice?",
            ),
        ),
        Property(
            "everybody is asked for with all tokens that are not computed yet",
            _only("tokens asked"),
            ("How many tokens? All it holds less those that are computed.",),
        ),
        Property(
            "the victim is whoever was admitted last, as often as needed, and no oftener",
            _only("victims"),
            (
                "Where allocate_slots gives None, somebody has to give blocks back. Who was admitted last stands last.",
                "After each victim, ask again: its blocks have to be free by then.",
                "The last one may be the one who asks. Then it is the victim itself, and nobody else has to go.",
            ),
        ),
        Property(
            "everybody who is left gets its tokens, in order",
            _only("scheduled"),
            ("A request that made room gets nothing in this step, and those behind it are gone already.",),
        ),
        Property(
            "a victim leaves running, the very list that was handed in",
            _only("running"),
            ("running.pop() changes the list; running = running[:-1] makes another one, which nobody else sees.",),
        ),
        Property(
            "a victim has nothing computed any more, and nobody else loses anything",
            _only("zero"),
            ("Its blocks are gone, and so are its keys and values. Which number says so?",),
        ),
        Property(
            "the tokens themselves are kept",
            _only("tokens"),
            ("What was generated is part of the answer. When the request comes back, it is prompt.",),
        ),
        Property(
            'a victim has the status "preempted", and counts it',
            _only("status"),
            ("request.status and request.num_preemptions; the second one counts all its preemptions.",),
        ),
        Property(
            "victims wait at the head of the queue, before all who never ran",
            _only("queue"),
            (
                "A deque has appendleft. A new deque is not the one that was handed in.",
                "The victim that was admitted earlier has to stand before the later one.",
            ),
        ),
        Property(
            "beside each request stand the blocks that allocate_slots gave for it",
            _only("given"),
            ("Pass on what allocate_slots returned, the blocks themselves.",),
        ),
        Property(
            "blocks go where the manager put them",
            _only("blocks"),
            ("Let the manager free what a victim held, and nothing else.",),
        ),
    ),
)
