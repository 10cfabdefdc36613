"""Who runs in the step after the one that the device is busy with?"""

from __future__ import annotations

from collections import deque
from typing import Any

from pagedlab.engine.request import Request
from pagedlab.engine.scheduler import Scheduler, SchedulerOutput


class AsyncScheduler(Scheduler):
    """Plans step k+1 before it knows which tokens step k samples, so that a GPU never waits for a plan.

    Most of a plan needs no token, only its place: a request under way gets a *placeholder* for the token that is being
    sampled, and slots, and perhaps a block, for it. What does depend on tokens comes a step late: who stops, and which
    block is full of known tokens and gets its hash. So a request that stops has been scheduled once too often, and that
    token is dropped. One at its ``max_tokens`` is seen coming, and is not scheduled again, but holds its blocks until
    its last token is here. A victim's last token is still under way; it is its own, and it waits for it before it
    resumes.

    ``schedule`` and ``update_after_schedule`` go together; ``update_from_output`` takes the steps in as they were
    planned, the oldest first.

    Source: vLLM ``v1/core/sched/async_scheduler.py`` and ``scheduler.py``.
    """

    def __init__(self, kv_cache_manager: Any, **limits: int) -> None:
        super().__init__(kv_cache_manager, **limits)
        self._in_flight: deque[list[tuple[Request, int]]] = deque()  # each step's requests and their tokens

    def _num_tokens_to_compute(self, request: Request) -> int:
        ahead = request.num_output_placeholders
        if ahead and request.num_tokens + ahead >= request.num_prompt_tokens + request.sampling_params.max_tokens:
            return 0  # its last token is under way
        return request.num_tokens + ahead - request.num_computed_tokens

    def schedule(self) -> SchedulerOutput:
        output = super().schedule()
        for victim in output.preempted:
            victim.num_stale_output_tokens = victim.num_in_flight_tokens
            victim.num_output_placeholders = 0
        return output

    def _schedule_waiting(self, output: SchedulerOutput, budget: int) -> None:
        """As in step; but whoever waits for a token that is under way is passed over, and keeps its place."""
        aside = []
        while self.waiting and budget > 0 and len(self.running) < self.max_num_seqs:
            if self.waiting[0].num_stale_output_tokens:
                aside.append(self.waiting.popleft())
                continue
            num_new_tokens = self._admit_first(output, budget)
            if not num_new_tokens:
                break
            budget -= num_new_tokens
        self.waiting.extendleft(reversed(aside))

    def update_after_schedule(self, output: SchedulerOutput) -> None:
        """The step is on its way: from here on its tokens count as computed, and the next ones as being sampled."""
        by_id = {request.request_id: request for request in self.running}
        batch = [(by_id[name], num_tokens) for name, num_tokens in output.num_scheduled_tokens.items()]
        for request, num_tokens in batch:
            request.num_computed_tokens += num_tokens
            request.num_in_flight_tokens += num_tokens
            if request.num_computed_tokens >= request.num_tokens + request.num_output_placeholders:
                request.num_output_placeholders += 1
        self._in_flight.append(batch)

    def update_from_output(self, output: SchedulerOutput, sampled: dict[str, int], is_stop: Any) -> list[Request]:
        finished = []
        for request, num_tokens in self._in_flight.popleft():
            request.num_in_flight_tokens -= num_tokens
            is_stale = request.num_stale_output_tokens > 0
            if is_stale:
                request.num_stale_output_tokens -= num_tokens
            if request.status == "finished" or request.request_id not in sampled:
                continue
            self._append(request, sampled[request.request_id], is_stop)
            if not is_stale:
                request.num_output_placeholders -= 1
            if request.status == "running":
                num_known = request.num_computed_tokens - request.num_output_placeholders
                self.kv_cache_manager.cache_blocks(request, num_known)
            if request.finish_reason is not None:
                if request.status == "running":
                    self.kv_cache_manager.free(request)
                request.status = "finished"
                finished.append(request)
        if finished:
            self.running = [request for request in self.running if request.status != "finished"]
            self.waiting = deque(request for request in self.waiting if request.status != "finished")
        return finished

    def roll_back(self) -> list[Request]:
        """Whatever is under way comes to nothing: as if it had not been scheduled. Returns the running requests that
        were; their blocks stay theirs."""
        requests = {id(request): request for batch in self._in_flight for request, _ in batch}.values()
        running = [request for request in requests if request.status == "running"]
        for request in running:
            request.num_computed_tokens -= request.num_in_flight_tokens
        for request in requests:
            request.num_output_placeholders = request.num_in_flight_tokens = request.num_stale_output_tokens = 0
        self._in_flight.clear()
        return running
