"""Part 08.3: every running request gets its next tokens; where there is no room, somebody makes it."""

from __future__ import annotations

import random
from collections import deque
from typing import Any

from pagedlab.engine.scheduler import Scheduler, SchedulerOutput
from pagedlab.grading.part import Part, Property
from pagedlab.grading.plain import raised, same, show
from pagedlab.grading.tasks.ex08 import probes
from pagedlab.grading.tasks.ex08.step import play


def _cases(rng: random.Random, seed: int) -> list[dict]:
    """``running``: for each, in order of admission, (tokens in memory, tokens that wait to be computed)."""
    told = [  # block size, spare blocks, running, those who wait, steps
        (4, 2, [(3, 1), (5, 1)], 0, 2),  # nobody is in the way
        (4, 0, [(4, 1), (6, 1)], 1, 1),  # the last makes room for the first
        (4, 0, [(6, 1), (4, 1)], 1, 1),  # it needs the room itself
        (4, 0, [(4, 1), (8, 1), (5, 1)], 0, 1),  # one victim is enough for two
        (4, 0, [(4, 9), (6, 1), (3, 1), (2, 1)], 2, 1),  # one is not enough
        (4, 0, [(4, 1), (3, 1), (4, 1), (2, 1)], 1, 3),
        (2, 1, [(2, 1), (4, 1), (6, 1), (3, 1)], 2, 6),
    ]
    for i in range(17):
        size = (4, 2, 3, 1, 8)[i % 5]
        waiting_tokens = [1, 1, 1, rng.randint(1, 2 * size)]
        running = [(rng.randint(1, 4 * size), rng.choice(waiting_tokens)) for _ in range(2 + i % 5)]
        told.append((size, rng.randint(0, 2), running, rng.randint(0, 2), 1 + i // 3))
    names = ("block_size", "spare", "running", "waiting", "steps")
    return [dict(zip(names, case, strict=True)) | {"caching": i % 2 == 0} for i, case in enumerate(told)]


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
        if same(mine, right):
            held = [(right["computed"][r], 1) for r in right["running"]]
            names, free = right["running"], len(right["free"])
            continue
        if number == 0:
            names, free = [chr(65 + i) for i in range(len(held))], case["spare"]
        who = ", ".join(f"{name} {done}+{new}" for name, (done, new) in zip(names, held, strict=True))
        story = f"blocks of {case['block_size']}, {free} free, running (tokens in memory + new ones): {who}; "
        return _which(mine, right, story)
    return None if len(answer["steps"]) == len(play(package_step, case)) else ("shape", "the run ended too early")


def _which(mine: dict, right: dict, story: str) -> tuple[str, str]:
    returned = mine["returned"]
    if raised(returned):
        return "shape", f"{story}schedule_running gave {show(returned)}"
    if not same(returned["preempted"], right["returned"]["preempted"]) or not same(mine["running"], right["running"]):
        return "victims", f"{story}preempted were {returned['preempted']}, running is {show(mine['running'])}"
    if [r for r, _ in returned["scheduled"]] != [r for r, _ in right["returned"]["scheduled"]]:
        return "scheduled", f"{story}scheduled were {[r for r, _ in returned['scheduled']]}"
    if not same(mine["computed"], right["computed"]):
        return "zero", f"{story}after it num_computed_tokens were {mine['computed']}"
    if not same(mine["tokens"], right["tokens"]):
        return "tokens", f"{story}after it they held {[len(t) for t in mine['tokens'].values()]} tokens"
    if not same(mine["status"], right["status"]):
        return "status", f"{story}status and number of preemptions were {mine['status']}"
    if not same(mine["waiting"], right["waiting"]):
        return "queue", f"{story}preempted were {returned['preempted']}, then the waiting queue was {mine['waiting']}"
    return "blocks", f"{story}scheduled were {returned['scheduled']}, and the tables {mine['tables']}"


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
            "schedule_running returns two lists: (request, new blocks) pairs, and requests",
            _only("shape"),
            (
                "return scheduled, preempted. Of allocate_slots, an empty list is a good answer; None is not.",
                "free raises for a request that holds no blocks. Has somebody been thrown out twice?",
            ),
        ),
        Property(
            "the victim is whoever was admitted last, as often as needed, and no oftener",
            _only("victims"),
            (
                "allocate_slots returned None: somebody has to give blocks back. Who was admitted last stands last.",
                "After each victim, ask again. A victim leaves running, and its blocks have to be free by then.",
                "The last one may be the one who asks. Then it is the victim itself, and nobody else has to go.",
            ),
        ),
        Property(
            "everybody who is left gets its tokens, in order",
            _only("scheduled"),
            (
                "A request that made room gets nothing in this step, and those behind it are gone already.",
                "How many tokens? All it holds less those that are computed.",
            ),
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
            ("A deque has appendleft.", "The victim that was admitted earlier has to stand before the later one."),
        ),
        Property(
            "blocks go where the manager put them",
            _only("blocks"),
            ("Pass on what allocate_slots returned, and let the manager free what a victim held.",),
        ),
    ),
    answered_by=("Scheduler",),
)
