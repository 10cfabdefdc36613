"""Notes of what a live scheduler of vLLM's does, taken where it does it.

A hook is an instance attribute of a live object: it calls the real method and appends a note. Nothing of vLLM is
changed, and nothing is computed here that can be computed later from the notes (``tell.py`` does): the scheduler waits
for its hooks.

Source: vLLM v0.32.0, ``v1/core/sched/scheduler.py``, ``v1/core/kv_cache_manager.py``, ``v1/core/block_pool.py``, and
``config/vllm.py`` (``use_v2_model_runner``).
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from pagedlab.errors import PagedlabError
from pagedlab.trace.recorder import source_of

Note = tuple[Any, ...]  # its kind, then what the function of that kind in tell.py takes

GROUP_BYTES = 4  # behind a block's hash: the number of its group (v1/core/kv_cache_utils.py)
POOL = ("get_new_blocks", "touch", "free_blocks", "cache_full_blocks", "evict_blocks", "reset_prefix_cache")
MANAGER = ("get_computed_blocks", "allocate_slots", "free")
RUNNER = ("execute_model", "sample_tokens")  # no hook is there (it may be another process), but events name them
SCHEDULER = ("add_request", "schedule", "_preempt_request", "update_from_output", "finish_requests")


class Hooks:
    """``take`` is given the notes of a step when it is over, and those from between two steps when they are made.

    ``lock`` is held while vLLM changes anything that is watched, and while ``take`` runs.
    """

    def __init__(self, scheduler: Any, take: Callable[[list[Note]], None]) -> None:
        self.scheduler = scheduler
        self.manager = scheduler.kv_cache_manager
        self.pool = self.manager.block_pool
        _check(scheduler)
        [self.group] = self.manager.coordinator.single_type_managers
        self.block_size: int = self.group.block_size
        self.sources: dict[str, str] = {}  # method -> where it is written, for an event's ``source``
        self.lock = threading.RLock()
        self._take = take
        self._notes: list[Note] = []
        self._step = 0  # how often vLLM has scheduled
        self._who = ""  # on whose behalf the manager works
        self._flights: deque[list] = deque()  # batches that are scheduled, and not taken in yet
        # block -> its parent's hash, its own, the position of its first token, and its tokens
        self._named: dict[int, tuple[bytes | None, bytes, int, list[int]]] = {}
        self._hooked = [(self.pool, POOL), (self.manager, MANAGER), (scheduler, SCHEDULER)]
        for owner, names in self._hooked:
            for name in names:
                real = getattr(owner, name)
                self.sources[name] = source_of(real)
                setattr(owner, name, getattr(self, f"_{name.lstrip('_')}")(real))
        runner = "gpu.model_runner" if scheduler.vllm_config.use_v2_model_runner else "gpu_model_runner"
        self.sources |= {name: f"vllm.v1.worker.{runner}:GPUModelRunner.{name}" for name in RUNNER}

    def close(self) -> None:
        """Take no more notes: every object is as it was."""
        for owner, names in self._hooked:
            for name in names:
                vars(owner).pop(name, None)

    def _pass_on(self) -> None:
        notes, self._notes = self._notes, []
        self._take(notes)

    def is_fresh(self) -> bool:
        """Is the pool as it was made? Then a trace can begin at its beginning."""
        free = [block.block_id for block in self.pool.free_block_queue.get_all_free_blocks()]
        return free == list(range(1, self.pool.num_gpu_blocks)) and not self.scheduler.requests

    def found(self) -> Note:
        """How everything stands now, for somebody who has none of the notes before. Those up to now are passed on."""
        with self.lock:
            self._pass_on()
            tables, late = self.group.req_to_blocks, dict[str, int]()
            if len(self._flights) > 1:  # the tokens of the last batch are not known yet: it is told later
                late = {request_id: start for request_id, start, _, _ in self._flights[-1]}
            requests = [
                (
                    request.request_id,
                    list(request.all_token_ids),
                    request.num_prompt_tokens,
                    request.max_tokens,
                    status,
                    late.get(request.request_id, request.num_computed_tokens),
                    [block.block_id for block in tables.get(request.request_id, ())],
                    request.num_preemptions,
                )
                for status, queue in (("running", self.scheduler.running), ("waiting", self.scheduler.waiting))
                for request in queue
            ]
            free = [block.block_id for block in self.pool.free_block_queue.get_all_free_blocks()]
            owners = [0 if block.is_null else block.ref_cnt for block in self.pool.blocks]
            named = [
                (block.block_id, *self._named.get(block.block_id, (None, block.block_hash[:-GROUP_BYTES], 0, [])))
                for block in self.pool.blocks
                if block.block_hash is not None
            ]
            return ("found", self._step, free, owners, requests, named, list(self._flights))

    # ---------------------------------------------------------------------------------------------------- the pool

    def _get_new_blocks(self, real: Callable) -> Callable:
        def get_new_blocks(num_blocks: int) -> list[Any]:
            blocks = real(num_blocks)
            if blocks:
                self._notes.append(("allocated", self._who, [block.block_id for block in blocks]))
            return blocks

        return get_new_blocks

    def _touch(self, real: Callable) -> Callable:
        def touch(blocks: Iterable[Any]) -> None:
            free = [block.ref_cnt == 0 for block in blocks]
            real(blocks)
            found = [(block.block_id, was, block.ref_cnt) for block, was in zip(blocks, free, strict=True)]
            self._notes.append(("touched", self._who, found))

        return touch

    def _free_blocks(self, real: Callable) -> Callable:
        def free_blocks(ordered_blocks: Iterable[Any]) -> None:
            blocks = list(ordered_blocks)  # vLLM passes reversed(...), which can be read once
            real(blocks)
            if blocks:
                gone = [(block.block_id, block.ref_cnt, block.block_hash is not None) for block in blocks]
                self._notes.append(("freed", self._who, gone))

        return free_blocks

    def _cache_full_blocks(self, real: Callable) -> Callable:
        size = self.block_size

        def cache_full_blocks(request, blocks, num_cached_blocks, num_full_blocks, *args, **kwargs) -> None:
            real(request, blocks, num_cached_blocks, num_full_blocks, *args, **kwargs)
            first, end = num_cached_blocks, num_full_blocks
            if first < end:
                numbers = [block.block_id for block in blocks[first:end]]
                hashes = request.block_hashes[max(0, first - 1) : end]  # the parent's in front, where there is one
                tokens = request.all_token_ids[first * size : end * size]
                self._notes.append(("cached", numbers, hashes, tokens))
                before = len(hashes) - len(numbers)
                for i, number in enumerate(numbers):
                    parent = hashes[before + i - 1] if before + i else None
                    own, first_token = hashes[before + i], (first + i) * size
                    self._named[number] = parent, own, first_token, tokens[i * size : (i + 1) * size]

        return cache_full_blocks

    def _evict_blocks(self, real: Callable) -> Callable:
        def evict_blocks(block_ids: set[int]) -> None:
            real(block_ids)
            self._notes.append(("evicted", sorted(block_ids)))

        return evict_blocks

    def _reset_prefix_cache(self, real: Callable) -> Callable:
        def reset_prefix_cache() -> bool:
            with self.lock:
                done = real()
                if done:
                    self._notes.append(("reset",))
                    self._pass_on()
            return done

        return reset_prefix_cache

    # -------------------------------------------------------------------------------------------------- the manager

    def _get_computed_blocks(self, real: Callable) -> Callable:
        def get_computed_blocks(request: Any) -> Any:
            found = real(request)
            numbers = [block.block_id for block in found[0].blocks[0]]
            self._notes.append(("looked_up", request.request_id, numbers, found[1]))
            return found

        return get_computed_blocks

    def _allocate_slots(self, real: Callable) -> Callable:
        def allocate_slots(request: Any, num_new_tokens: int, *args: Any, **kwargs: Any) -> Any:
            self._who = request.request_id
            blocks = real(request, num_new_tokens, *args, **kwargs)
            if blocks is None:
                free = self.pool.get_num_free_blocks()
                self._notes.append(("failed", request.request_id, num_new_tokens, free))
            return blocks

        return allocate_slots

    def _free(self, real: Callable) -> Callable:
        def free(request: Any) -> None:
            self._who = request.request_id
            real(request)

        return free

    # ------------------------------------------------------------------------------------------------ the scheduler

    def _add_request(self, real: Callable) -> Callable:
        def add_request(request: Any) -> None:
            with self.lock:
                known = request.request_id in self.scheduler.requests  # then it is one more piece of a streamed prompt
                real(request)
                if not known:
                    tokens = list(request.all_token_ids)
                    self._notes.append(("arrived", request.request_id, tokens, request.max_tokens))
                    self._pass_on()

        return add_request

    def _preempt_request(self, real: Callable) -> Callable:
        def preempt_request(request: Any, *args: Any, **kwargs: Any) -> None:
            real(request, *args, **kwargs)
            self._notes.append(("preempted", request.request_id))

        return preempt_request

    def _schedule(self, real: Callable) -> Callable:
        size, tables = self.block_size, self.group.req_to_blocks

        def schedule(*args: Any, **kwargs: Any) -> Any:
            with self.lock:
                self._step += 1
                self._notes.append(("schedule", time.perf_counter()))
                output = real(*args, **kwargs)
                requests, batch = self.scheduler.requests, []
                for request_id, count in output.num_scheduled_tokens.items():
                    end = requests[request_id].num_computed_tokens
                    held = tables[request_id][(end - count) // size : (end - 1) // size + 1]
                    batch.append((request_id, end - count, end, [block.block_id for block in held]))
                self._flights.append(batch)
                self._notes.append(("scheduled", batch, time.perf_counter()))
            return output

        return schedule

    def _update_from_output(self, real: Callable) -> Callable:
        def update_from_output(scheduler_output: Any, model_runner_output: Any) -> Any:
            with self.lock:
                requests = self.scheduler.requests
                batch = [requests[name] for name in scheduler_output.num_scheduled_tokens if name in requests]
                lengths = [request.num_tokens for request in batch]
                sampled: list[tuple[str, list[int]]] = []
                self._notes.append(("update", sampled))  # filled in below: what is kept is known afterwards
                if self._flights:
                    self._flights.popleft()
                result = real(scheduler_output, model_runner_output)
                for request, length in zip(batch, lengths, strict=True):
                    if request.num_tokens > length:
                        sampled.append((request.request_id, request.all_token_ids[length:]))
                    if request.is_finished():
                        self._notes.append(("finished", request.request_id, _reason(request)))
                self._notes.append(("updated", time.perf_counter()))
                self._pass_on()
            return result

        return update_from_output

    def _finish_requests(self, real: Callable) -> Callable:
        def finish_requests(*args: Any, **kwargs: Any) -> Any:
            with self.lock:
                gone = real(*args, **kwargs)
                for request in gone:
                    self._notes.append(("finished", request.request_id, _reason(request)))
                self._pass_on()
            return gone

        return finish_requests


def _reason(request: Any) -> str:
    return request.get_finished_reason().name.lower()


def _check(scheduler: Any) -> None:
    """PagedlabError for what pagedlab's events have no words for."""
    config = scheduler.vllm_config
    groups = scheduler.kv_cache_manager.coordinator.single_type_managers
    kinds = ", ".join(type(group).__name__ for group in groups)
    wrong = {
        f"{len(groups)} groups of KV cache blocks, where one can be watched": len(groups) != 1,
        # Others give blocks of a running request back, or hold some that are no request's.
        f"blocks that {kinds} keeps, where it should be FullAttentionManager": kinds != "FullAttentionManager",
        "speculative decoding": config.speculative_config is not None,
        "a KV connector": scheduler.connector is not None,
        "pipeline parallelism": config.parallel_config.pipeline_parallel_size > 1,
        "context parallelism": config.parallel_config.decode_context_parallel_size > 1,
    }
    if found := [name for name, is_so in wrong.items() if is_so]:
        raise PagedlabError(
            f"This vLLM cannot be watched: it runs with {', '.join(found)}. Start it without, for a plain model."
        )
