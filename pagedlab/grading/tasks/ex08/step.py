"""How a learner's scheduler step is asked: on real requests, manager and pool, one step after the other."""

from __future__ import annotations

from collections import deque
from typing import Any

from pagedlab.engine.request import Request, SamplingParams
from pagedlab.grading.plain import attempt, raised
from pagedlab.kv import BlockPool, KVCacheManager


class Asked(KVCacheManager):
    """A manager that keeps in mind what it was asked, and what it answered."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.log: list[Any] = []

    def allocate_slots(self, request: Any, num_new_tokens: int, *args: Any, **kwargs: Any) -> Any:
        blocks = super().allocate_slots(request, num_new_tokens, *args, **kwargs)
        numbers = None if blocks is None else [block.block_id for block in blocks]
        self.log.append([request.request_id, num_new_tokens, numbers])
        return blocks

    def free(self, request: Any) -> None:
        super().free(request)
        self.log.append([request.request_id])


def _engine(case: dict) -> tuple[list[Request], deque[Request], KVCacheManager]:
    size, caching = case["block_size"], case["caching"]
    blocks = sum(-(-computed // size) for computed, _ in case["running"]) + case["spare"]
    manager = Asked(BlockPool(blocks + 1, caching), size, 10_000, caching)
    running, waiting = [], deque()
    for i, (computed, pending) in enumerate(case["running"]):
        tokens = [100 * i + j for j in range(computed)]
        request = Request(chr(65 + i), tokens, SamplingParams(), block_size=size, enable_caching=caching)
        manager.allocate_slots(request, computed)
        request.status, request.num_computed_tokens = "running", computed
        request.num_preemptions = case["before"][i]
        for j in range(pending):
            request.append_output_token(10_000 + j)
        running.append(request)
    for i in range(case["waiting"]):
        waiting.append(Request(f"W{i}", [7, 8, 9], SamplingParams(), block_size=size, enable_caching=caching))
    return running, waiting, manager


def play(schedule_running: Any, case: dict) -> list[dict]:
    """What ``schedule_running`` returned and left behind, step by step. Whoever was scheduled then gets one token."""
    running, waiting, manager = _engine(case)
    everybody = {request.request_id: request for request in [*running, *waiting]}
    steps = []
    for _ in range(case["steps"]):
        given: dict[str, Any] = {}
        manager.log.clear()

        def run(given: dict = given) -> Any:
            scheduled, preempted = schedule_running(running, waiting, manager)
            given["scheduled"] = list(scheduled)
            blocks = manager.block_pool.blocks
            return {
                "scheduled": [[_name(r), [_number(b, blocks) for b in new]] for r, new in given["scheduled"]],
                "preempted": [_name(r) for r in preempted],
            }

        def _name(r: Any) -> str:
            return r.request_id if r is everybody[r.request_id] else f"a copy of {r.request_id}"

        returned = attempt(run)
        if raised(returned):
            steps.append({"returned": returned, "asked": list(manager.log)})
            break
        free = manager.block_pool.free_block_queue.get_all_free_blocks()
        steps.append({
            "returned": returned,
            "asked": list(manager.log),
            "running": attempt(lambda: [r.request_id for r in running]),
            "waiting": attempt(lambda: [r.request_id for r in waiting]),
            "computed": {name: attempt(lambda r=r: r.num_computed_tokens) for name, r in everybody.items()},
            "tokens": {name: attempt(lambda r=r: list(r.all_token_ids)) for name, r in everybody.items()},
            "status": {name: attempt(lambda r=r: [r.status, r.num_preemptions]) for name, r in everybody.items()},
            "tables": {name: manager.get_block_ids(name) for name in everybody},
            "free": [block.block_id for block in free],
        })  # fmt: skip
        for request, _ in given["scheduled"]:
            request.num_computed_tokens = request.num_tokens
            request.append_output_token(20_000 + request.num_tokens)
        if not running:
            break
    return steps


def _number(block: Any, blocks: list[Any]) -> Any:
    return block.block_id if block is blocks[block.block_id] else f"a copy of {block.block_id}"


def step(objects: dict[str, Any], case: dict) -> dict:
    return {"steps": play(objects["schedule_running"], case)}
