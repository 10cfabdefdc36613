"""Who runs in this step, and how many tokens of each?"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from pagedlab.engine.request import Request
from pagedlab.kv.block import ids_of_groups


@dataclass
class SchedulerOutput:
    """One step's decision. ``num_scheduled_tokens`` is in scheduling order.

    ``new_block_ids``: for requests that start or resume in this step their whole block table, for the others only the
    blocks added; a list for each group of layers where there are such. ``fallbacks``: why a victim was recomputed
    although swapping was asked for (the paper's era).
    """

    num_scheduled_tokens: dict[str, int] = field(default_factory=dict)
    new_block_ids: dict[str, list[int]] = field(default_factory=dict)
    new: list[Request] = field(default_factory=list)
    resumed: list[Request] = field(default_factory=list)
    preempted: list[Request] = field(default_factory=list)
    fallbacks: dict[str, str] = field(default_factory=dict)

    @property
    def admitted(self) -> list[Request]:
        """Those that start or resume in this step, in scheduling order."""
        entering = {request.request_id: request for request in self.new + self.resumed}
        return [entering[request_id] for request_id in self.num_scheduled_tokens if request_id in entering]


class Scheduler:
    """First come, first served, under a budget of tokens per step.

    There is no prefill phase and no decode phase: each request has tokens that are not computed yet, many (a prompt)
    or one (just sampled), and gets as many as the budget allows. Running requests come first, so a decode never waits
    for a prompt; a long prompt is cut into chunks. Without ``enable_chunked_prefill`` it waits for a step that has room
    for all of it, and so do those behind it.

    Where the pool is exhausted, the request that was admitted last gives its blocks back and waits again, at the head
    of the queue, with nothing computed (recomputation; V1 knows no swap).

    Source: vLLM ``v1/core/sched/scheduler.py``, synchronous mode; ``async_scheduler.py`` plans one step ahead.
    """

    def __init__(
        self,
        kv_cache_manager: Any,
        *,
        max_num_seqs: int,
        max_num_batched_tokens: int,
        max_model_len: int,
        enable_chunked_prefill: bool = True,
    ) -> None:
        if min(max_num_seqs, max_num_batched_tokens, max_model_len) < 1:
            raise ValueError(
                f"max_num_seqs={max_num_seqs}, max_num_batched_tokens={max_num_batched_tokens} and "
                f"max_model_len={max_model_len} must all be at least 1"
            )
        self.kv_cache_manager = kv_cache_manager
        self.max_num_seqs = max_num_seqs
        self.max_num_batched_tokens = max_num_batched_tokens
        self.max_model_len = max_model_len
        self.enable_chunked_prefill = enable_chunked_prefill
        self.waiting: deque[Request] = deque()
        self.running: list[Request] = []

    def add_request(self, request: Request) -> None:
        """Let the request wait behind all others. Raises ValueError for a prompt that leaves no room for a token."""
        if request.num_tokens >= self.max_model_len:
            raise ValueError(
                f"request {request.request_id!r} holds {request.num_tokens} tokens; max_model_len={self.max_model_len} "
                f"leaves room for a prompt of at most {self.max_model_len - 1}"
            )
        self.waiting.append(request)

    def has_unfinished_requests(self) -> bool:
        return bool(self.waiting or self.running)

    def schedule(self) -> SchedulerOutput:
        """Decide one step and allocate its blocks. May schedule nothing."""
        output = SchedulerOutput()
        budget = self._schedule_running(output, self.max_num_batched_tokens)
        if not output.preempted:  # there is no room for newcomers in a step that threw somebody out
            self._schedule_waiting(output, budget)
        return output

    def _schedule_running(self, output: SchedulerOutput, budget: int) -> int:
        index = 0
        while index < len(self.running) and budget > 0:
            request = self.running[index]
            # The token at the last position is never computed: nothing can follow it.
            num_new_tokens = min(
                self._num_tokens_to_compute(request),
                budget,
                self.max_model_len - 1 - request.num_computed_tokens,
            )
            if num_new_tokens > 0:
                new_blocks = self._allocate_or_preempt(request, num_new_tokens, output)
                if new_blocks is None:
                    break
                output.num_scheduled_tokens[request.request_id] = num_new_tokens
                output.new_block_ids[request.request_id] = ids_of_groups(new_blocks)
                budget -= num_new_tokens
            index += 1
        return budget

    def _num_tokens_to_compute(self, request: Request) -> int:
        return request.num_tokens - request.num_computed_tokens

    def _allocate_or_preempt(self, request: Request, num_new_tokens: int, output: SchedulerOutput) -> list | None:
        """Blocks for a running request, at the expense of those admitted last; None where it was itself the victim."""
        while True:
            new_blocks = self.kv_cache_manager.allocate_slots(request, num_new_tokens)
            if new_blocks is not None:
                return new_blocks
            victim = self.running.pop()
            self.kv_cache_manager.free(victim)
            victim.status = "preempted"
            victim.num_computed_tokens = 0
            victim.num_preemptions += 1
            self.waiting.appendleft(victim)
            output.preempted.append(victim)
            if victim is request:
                return None

    def _schedule_waiting(self, output: SchedulerOutput, budget: int) -> None:
        while self.waiting and budget > 0 and len(self.running) < self.max_num_seqs:
            num_new_tokens = self._admit_first(output, budget)
            if not num_new_tokens:
                break  # nobody overtakes the first in the queue
            budget -= num_new_tokens

    def _admit_first(self, output: SchedulerOutput, budget: int) -> int:
        """The first that waits, if there is room for it. Returns how many of its tokens run; 0: it waits on."""
        request = self.waiting[0]
        hits, num_hit_tokens = self.kv_cache_manager.get_computed_blocks(request)
        num_new_tokens = request.num_tokens - num_hit_tokens
        if num_new_tokens > budget and not self.enable_chunked_prefill:
            return 0
        num_new_tokens = min(num_new_tokens, budget)
        new_blocks = self.kv_cache_manager.allocate_slots(
            request, num_new_tokens, new_computed_blocks=hits, full_sequence_must_fit=True
        )
        if new_blocks is None:
            return 0
        self.waiting.popleft()
        self.running.append(request)
        (output.resumed if request.status == "preempted" else output.new).append(request)
        if request.status == "waiting":
            request.num_cached_tokens = num_hit_tokens
        request.status = "running"
        request.num_computed_tokens = num_hit_tokens
        output.num_scheduled_tokens[request.request_id] = num_new_tokens
        output.new_block_ids[request.request_id] = self.kv_cache_manager.get_block_ids(request.request_id)
        return num_new_tokens

    def update_from_output(self, output: SchedulerOutput, sampled: dict[str, int], is_stop: Any) -> list[Request]:
        """Take in what the model did: ``sampled`` tokens by request id (only requests whose tokens are all computed
        have one).

        ``is_stop(request) -> bool`` is asked after a request got its token. Returns the requests that finished; their
        blocks are free again.
        """
        finished = []
        by_id = {request.request_id: request for request in self.running}
        for request_id, num_tokens in output.num_scheduled_tokens.items():
            request = by_id[request_id]
            request.num_computed_tokens += num_tokens
            if request_id not in sampled:
                continue
            self._append(request, sampled[request_id], is_stop)
            if request.finish_reason is not None:
                self.kv_cache_manager.free(request)
                request.status = "finished"
                finished.append(request)
        if finished:
            self.running = [request for request in self.running if request.status != "finished"]
        return finished

    def _append(self, request: Request, token_id: int, is_stop: Any) -> None:
        request.append_output_token(token_id)
        if is_stop(request):
            request.finish_reason = "stop"
        elif (
            len(request.all_token_ids) - request.num_prompt_tokens >= request.sampling_params.max_tokens
            or request.num_tokens >= self.max_model_len
        ):
            request.finish_reason = "length"

    def abort(self, request_id: str) -> Request | None:
        """Take a request out, wherever it is, and free its blocks. None where it is not here."""
        for queue in (self.running, self.waiting):
            for request in queue:
                if request.request_id == request_id:
                    queue.remove(request)
                    if request.status == "running":  # those that wait hold no blocks
                        self.kv_cache_manager.free(request)
                    request.status, request.finish_reason = "finished", "abort"
                    return request
        return None
