"""The engine's default era: what vLLM runs. Full blocks are shared read-only, and a victim is computed again.

An era is what the engine leaves open: which parts there are, how a prompt becomes requests, which bytes move before
the model runs, and whose tokens are drawn. It keeps nothing itself; what it needs to know is the engine's.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from pagedlab.engine import refusals
from pagedlab.engine.async_scheduler import AsyncScheduler
from pagedlab.engine.beam import BeamSearchOutput, BeamSearchParams
from pagedlab.engine.draws import assign, draw
from pagedlab.engine.prompts import Prompt
from pagedlab.engine.request import SamplingParams
from pagedlab.engine.scheduler import Scheduler, SchedulerOutput
from pagedlab.engine.sequence_group import SequenceGroup
from pagedlab.engine.step_under_way import StepUnderWay
from pagedlab.errors import PagedlabError
from pagedlab.executor import SamplerOutput, SamplingMetadata, ScheduledRequest
from pagedlab.kv.block_pool import BlockPool
from pagedlab.kv.block_table import BlockTable, GroupedBlockTable
from pagedlab.kv.groups import GroupedKVCacheManager, most_blocks
from pagedlab.kv.manager import KVCacheManager
from pagedlab.kv.observed import ObservedBlockPool, ObservedKVCacheManager
from pagedlab.kv.observed_groups import ObservedGroupedKVCacheManager
from pagedlab.trace import events as ev

if TYPE_CHECKING:
    from pagedlab.engine.llm import LLM


class V1:
    """Parts that a learner may replace are made so: ``block_pool(num_gpu_blocks, enable_caching)``,
    ``kv_cache_manager(block_pool, block_size, max_model_len, enable_caching)``, ``scheduler(kv_cache_manager,
    max_num_seqs=, max_num_batched_tokens=, max_model_len=)`` (with ``enable_chunked_prefill=False`` where that is off),
    ``block_table(block_size)``."""

    PARTS: ClassVar[dict[str, Any]] = {
        "block_pool": BlockPool,
        "kv_cache_manager": KVCacheManager,
        "scheduler": Scheduler,
        "block_table": BlockTable,
    }

    NUM_NULL_BLOCKS: ClassVar[int] = 1  # of the pool, which no request ever gets

    def make_parts(self, llm: LLM, limits: dict[str, int]) -> tuple[Any, Any, Any]:
        """Pool, manager and scheduler; under a recorder the first two are watched."""
        k, parts = llm.config, llm.parts
        block_pool = parts["block_pool"](llm.num_blocks, k.enable_prefix_caching)
        if llm.recorder:
            block_pool = ObservedBlockPool(block_pool, k.block_size, llm.recorder)
        make, observed = parts["kv_cache_manager"], ObservedKVCacheManager
        if llm.model_config.has_groups:
            if make is not KVCacheManager:
                raise PagedlabError(refusals.ONE_TABLE_ONLY)
            make, observed = partial(GroupedKVCacheManager, **self._of_groups(llm)), ObservedGroupedKVCacheManager
        manager = make(block_pool, k.block_size, llm.max_model_len, k.enable_prefix_caching)
        if llm.recorder:
            manager = observed(manager, block_pool, llm.recorder)
        make, ahead = parts["scheduler"], k.async_scheduling
        if not k.enable_chunked_prefill:
            if reason := refusals.never_whole(k.max_num_batched_tokens, llm.max_model_len):
                raise PagedlabError(reason)
            limits = limits | {"enable_chunked_prefill": False}
        scheduler = (AsyncScheduler if ahead and make is Scheduler else make)(manager, **limits)
        if ahead and not (isinstance(scheduler, AsyncScheduler) and hasattr(manager, "cache_blocks")):
            raise PagedlabError(refusals.NOT_ONE_STEP_AHEAD)
        return block_pool, manager, scheduler

    def _of_groups(self, llm: LLM) -> dict[str, Any]:
        """What a manager of several groups is made with besides."""
        k = llm.config
        return {
            "windows": [group.window for group in llm.model_config.layer_groups],
            "retention_interval": k.prefix_cache_retention_interval,
            "max_in_flight_tokens": k.max_num_batched_tokens * (1 + k.async_scheduling),
        }

    def make_table(self, llm: LLM) -> BlockTable | GroupedBlockTable:
        """An empty one, for a request that starts or resumes."""
        make, size = llm.parts["block_table"], llm.config.block_size
        if not llm.model_config.has_groups:
            return make(size)
        return GroupedBlockTable([make(size) for _ in llm.model_config.layer_groups])

    def blocks_for(self, llm: LLM, num_tokens: int) -> int:
        """How many blocks a request of so many tokens holds at most at once."""
        groups = self._of_groups(llm)
        return most_blocks(groups["windows"], num_tokens, llm.config.block_size, groups["max_in_flight_tokens"])

    def cpu_blocks_in_use(self, llm: LLM) -> list[int]:
        """Blocks of the CPU's memory in which something lies."""
        return []

    def add_to_queue(self, llm: LLM, group: SequenceGroup, params: SamplingParams, salt: str) -> None:
        """The ``n`` answers to a prompt are ``n`` requests, and the scheduler never learns that they belong
        together."""
        for i in range(group.width):
            request = llm.new_request(group, i, params, salt)
            llm.scheduler.add_request(request)
            llm.events.emit(ev.RequestQueued, llm.scheduler.add_request, request_id=request.request_id)

    def why_never(self, llm: LLM, num_tokens: int, params: SamplingParams | BeamSearchParams) -> str | None:
        """Why a request with a prompt of so many tokens could never finish here; None where it can."""
        if isinstance(params, BeamSearchParams):
            return refusals.NO_BEAMS
        return refusals.no_room(
            num_tokens,
            params,
            needed=self.blocks_for(llm, refusals.longest(num_tokens, params, llm.max_model_len)),
            block_size=llm.config.block_size,
            num_blocks=llm.num_blocks,
        )

    # ---------------------------------------------------------------------------------------------------------- steps

    def move_blocks(self, llm: LLM, output: SchedulerOutput) -> None:
        """Copies that have to be made before the model runs."""

    def sampling(self, llm: LLM, batch: list[ScheduledRequest]) -> SamplingMetadata:
        """A token for every request all of whose tokens are computed after this step."""
        return SamplingMetadata(
            [
                draw(row, llm.requests[part.request_id], part.end)
                for row, part in enumerate(batch)
                if part.end >= len(part.token_ids)
            ]
        )

    def sampled(self, llm: LLM, step: StepUnderWay, output: SamplerOutput) -> dict[str, int]:
        """The tokens that were drawn, by request."""
        requests = [step.requests[draw.row] for draw in step.sampling.draws]
        return assign(requests, output.token_ids, llm.executor.sampler, llm.events)

    # --------------------------------------------------------------------------------------- what V1 does not have

    def beam_search(
        self, llm: LLM, prompts: Prompt | Sequence[Prompt], params: BeamSearchParams
    ) -> list[BeamSearchOutput]:
        raise PagedlabError(refusals.NO_BEAMS)

    def fork_request(self, llm: LLM, request_id: str, seed: int | None) -> str:
        raise PagedlabError(refusals.NO_FORKS)

    def set_copy_on_write(self, llm: LLM, on: bool) -> NoReturn:
        raise PagedlabError(refusals.NO_COPIES)
