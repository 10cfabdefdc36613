"""A step between its two halves: it was planned and sent off, and its tokens are not taken in yet."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pagedlab.engine.request import Request
from pagedlab.engine.scheduler import SchedulerOutput
from pagedlab.executor import Executor, SamplerOutput, SamplingMetadata, ScheduledRequest

if TYPE_CHECKING:
    from pagedlab.engine.llm import LLM


@dataclass
class StepUnderWay:
    """``requests``: of the batch, in its order. ``sampling``: what is wanted of it. ``handle``: the executor's; None
    for a step of nobody, and for one that was waited for: what it gave is ``chosen``."""

    output: SchedulerOutput
    batch: list[ScheduledRequest] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    sampling: SamplingMetadata = field(default_factory=SamplingMetadata)
    handle: Any = None
    chosen: SamplerOutput | None = None

    def wait(self, executor: Executor) -> None:
        """Until the device is done with it, and its tokens are here."""
        if self.batch and self.chosen is None:
            self.chosen, self.handle = executor.collect(self.handle), None

    def tokens(self) -> dict[str, int]:
        """Those that are here, by request."""
        if self.chosen is None:
            return {}
        names = [self.requests[draw.row].request_id for draw in self.sampling.draws]
        return dict(zip(names, self.chosen.token_ids, strict=True))


def batch_of(llm: LLM, output: SchedulerOutput) -> list[ScheduledRequest]:
    """What the executor is to compute. A token that is still being sampled is left to it, unless it is here already
    (a snapshot waits for what is under way)."""
    batch = []
    here = {name: token for step in llm.under_way for name, token in step.tokens().items()}
    for request_id, num_tokens in output.num_scheduled_tokens.items():
        request = llm.requests[request_id]
        start, token_ids = request.num_computed_tokens, request.all_token_ids
        if request.num_output_placeholders and request_id in here:
            token_ids = [*token_ids, here[request_id]]
        batch.append(ScheduledRequest(request_id, token_ids, start, start + num_tokens, llm.tables[request_id]))
    return batch


@contextmanager
def forgetting(llm: LLM, output: SchedulerOutput) -> Iterator[None]:
    """Ctrl-C, or an error in a part: the step can be tried again, or its requests aborted. Steps that were under way
    are lost with it, and are made anew."""
    try:
        yield
    except BaseException:
        unwritten = {name: llm.requests[name] for name in output.num_scheduled_tokens if name in llm.requests}
        if llm.config.async_scheduling:
            llm.under_way.clear()
            unwritten |= {request.request_id: request for request in llm.scheduler.roll_back()}
        if hasattr(llm.kv_cache_manager, "forget_unwritten"):
            for request in llm.kv_cache_manager.forget_unwritten([*unwritten.values()]) or ():
                llm.kv_cache_manager.begin_anew(request)
                llm.tables[request.request_id] = llm.era.make_table(llm)
        raise
