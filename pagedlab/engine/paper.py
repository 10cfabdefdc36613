"""The paper's era: a prompt is computed once, then forks; blocks are copied on write, and swapped.

Source: the paper, sections 4.3 to 4.5; vLLM v0.2.0 ``engine/llm_engine.py`` and ``worker/cache_engine.py``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from pagedlab.engine import refusals
from pagedlab.engine.beam import BeamSearch, BeamSearchOutput, BeamSearchParams, BeamSearchSequence
from pagedlab.engine.draws import assign, draw
from pagedlab.engine.paper_scheduler import PaperScheduler, PaperSchedulerOutput
from pagedlab.engine.prompts import Prompt
from pagedlab.engine.request import Request, SamplingParams
from pagedlab.engine.sampling import answer_seed
from pagedlab.engine.sequence_group import SequenceGroup
from pagedlab.engine.step_under_way import StepUnderWay
from pagedlab.errors import PagedlabError, whole
from pagedlab.executor import SamplerOutput, SamplingMetadata, ScheduledRequest
from pagedlab.kv.block_table import BlockTable
from pagedlab.kv.observed_paper import ObservedBlockSpaceManager
from pagedlab.kv.paper import BlockAllocator, BlockSpaceManager
from pagedlab.trace import events as ev

if TYPE_CHECKING:
    from pagedlab.engine.llm import LLM


class Paper:
    """The same calls and the same answers as in V1 (``v1.py`` says what each method is for); other decisions about
    memory.

    Parts that a learner may replace are made so: ``block_pool(num_blocks)`` (each of the two pools),
    ``kv_cache_manager(block_size, num_gpu_blocks, num_cpu_blocks, block_allocator=)``, ``scheduler(kv_cache_manager,
    max_num_seqs=, max_num_batched_tokens=, max_model_len=, preemption=)``, ``block_table(block_size)``.
    """

    PARTS: ClassVar[dict[str, Any]] = {
        "block_pool": BlockAllocator,
        "kv_cache_manager": BlockSpaceManager,
        "scheduler": PaperScheduler,
        "block_table": BlockTable,
    }

    NUM_NULL_BLOCKS: ClassVar[int] = 0

    def make_parts(self, llm: LLM, limits: dict[str, int]) -> tuple[Any, Any, Any]:
        k, parts = llm.config, llm.parts
        if llm.model_config.has_groups:
            raise PagedlabError(refusals.NO_WINDOWS_THEN)
        manager = parts["kv_cache_manager"](
            k.block_size, llm.num_blocks, llm.num_cpu_blocks, block_allocator=parts["block_pool"]
        )
        if llm.recorder:
            manager = ObservedBlockSpaceManager(manager, llm.recorder)
        return manager.gpu_allocator, manager, parts["scheduler"](manager, preemption=k.preemption, **limits)

    def make_table(self, llm: LLM) -> BlockTable:
        return llm.parts["block_table"](llm.config.block_size)

    def blocks_for(self, llm: LLM, num_tokens: int) -> int:
        return -(-num_tokens // llm.config.block_size)

    def cpu_blocks_in_use(self, llm: LLM) -> list[int]:
        return [block.block_id for block in llm.kv_cache_manager.cpu_allocator.blocks if block.ref_cnt > 0]

    # ------------------------------------------------------------------------------------------------------- requests

    def add_to_queue(
        self, llm: LLM, group: SequenceGroup, params: SamplingParams | BeamSearchParams, salt: str
    ) -> None:
        """One sequence for the prompt; the others fork from it once it is computed. (There is no prefix cache to
        salt.)"""
        if isinstance(params, BeamSearchParams):
            eos = frozenset(llm.tokenizer.eos_token_ids)
            group.beam = BeamSearch(params, eos, len(group.prompt_token_ids))
            params = SamplingParams(max_tokens=params.max_tokens, ignore_eos=True)  # the search sees to ends of text
        request = llm.new_request(group, 0, params)
        group.seed = request.seed
        llm.scheduler.add_request(group)
        llm.events.emit(ev.RequestQueued, llm.scheduler.add_request, request_id=request.request_id)

    def why_never(self, llm: LLM, num_tokens: int, params: SamplingParams | BeamSearchParams) -> str | None:
        return refusals.no_room_for_group(
            num_tokens,
            params,
            max_model_len=llm.max_model_len,
            block_size=llm.config.block_size,
            num_blocks=llm.num_blocks,
            watermark_blocks=llm.kv_cache_manager.watermark_blocks,
            max_num_seqs=llm.scheduler.max_num_seqs,
            max_num_batched_tokens=llm.config.max_num_batched_tokens,
        )

    def fork_request(self, llm: LLM, request_id: str, seed: int | None) -> str:
        seed = None if seed is None else whole(seed, "seed")
        parent = llm.requests.get(request_id)
        if parent is None or parent.status != "running":
            running = ", ".join(r.request_id for r in llm.requests.values() if r.status == "running") or "none"
            what = parent.status if parent else "finished" if request_id in _known(llm) else "unknown"
            raise PagedlabError(f"Request {request_id!r} is {what} and cannot be forked; running are: {running}.")
        group = next(g for g in llm.groups.values() if parent in g.children)
        if group.beam:
            raise PagedlabError(f"Request {request_id!r} is a beam; its search alone decides who forks.")
        wider = dataclasses.replace(parent.sampling_params, n=group.width + 1)
        reason = self.why_never(llm, parent.num_prompt_tokens, wider)
        if reason:
            raise PagedlabError(reason)
        most = llm.scheduler.max_num_seqs
        # Those swapped out come back without being asked whether they are too many.
        if sum(g.width for g in (*llm.scheduler.running, *llm.scheduler.swapped)) >= most:
            raise PagedlabError(
                f"Request {request_id!r} cannot be forked: {most} sequences run already (max_num_seqs, or "
                "max_num_batched_tokens where that is less)."
            )
        llm.log("fork_request", request_id, seed=seed)
        group.width += 1
        return _fork(llm, group, parent, parent.num_computed_tokens, seed).request_id

    def set_copy_on_write(self, llm: LLM, on: bool) -> None:
        if not isinstance(on, bool):
            raise PagedlabError(f"on is {on!r}; it must be True or False.")
        switch = getattr(llm.kv_cache_manager, "set_copy_on_write", None)
        if switch is None:
            raise PagedlabError("This engine's kv_cache_manager cannot switch copy-on-write: use pagedlab's own.")
        llm.log("set_copy_on_write", on)
        switch(on)
        llm.events.emit(ev.CopyOnWriteSwitched, switch, on=on)

    def beam_search(
        self, llm: LLM, prompts: Prompt | Sequence[Prompt], params: BeamSearchParams
    ) -> list[BeamSearchOutput]:
        if not isinstance(params, BeamSearchParams):
            raise PagedlabError(
                f"beam_search takes BeamSearchParams(beam_width=, max_tokens=), not {type(params).__name__}."
            )
        outputs = []
        for output in llm.generate(prompts, params):
            sequences = [
                BeamSearchSequence(output.prompt_token_ids + o.token_ids, o.cumulative_logprob, o.text, o.finish_reason)
                for o in output.outputs
            ]
            outputs.append(BeamSearchOutput(sequences))
        return outputs

    # ---------------------------------------------------------------------------------------------------------- steps

    def move_blocks(self, llm: LLM, output: PaperSchedulerOutput) -> None:
        for request_id, (logical_block, block_id) in output.retargeted.items():
            llm.tables[request_id].block_ids[logical_block] = block_id
            llm.used_blocks.add(block_id)
        # In this order: a block that was swapped out may be swapped into, or copied to, in the same step.
        llm.executor.swap_out(output.blocks_to_swap_out)
        llm.executor.swap_in(output.blocks_to_swap_in)
        llm.executor.copy_blocks(output.blocks_to_copy)

    def sampling(self, llm: LLM, batch: list[ScheduledRequest]) -> SamplingMetadata:
        """A token for every sequence of the batch (all of them end at their last one), and for each that is about to
        fork from it; of beams the logits."""
        wanted = SamplingMetadata()
        for group, rows in _rows(llm, batch):
            if group.beam:
                wanted.logits += rows.values()
                continue
            wanted.draws += [draw(row, llm.requests[name], llm.requests[name].num_tokens) for name, row in rows.items()]
            (first, row), *_ = rows.items()
            for fork in range(1, group.width - len(group.children) + 1):
                seed = answer_seed(group.seed, group.num_forks + fork)
                wanted.draws.append(draw(row, llm.requests[first], llm.requests[first].num_tokens, seed))
        return wanted

    def sampled(self, llm: LLM, step: StepUnderWay, output: SamplerOutput) -> dict[str, int]:
        """The tokens that were chosen, by request; those that part fork first. A beam that is not among them dies."""
        token_ids, logits, sampled = iter(output.token_ids), iter(output.logits), {}
        for group, rows in _rows(llm, step.batch):
            sequences = [llm.requests[name] for name in rows]
            if group.beam:
                sampled |= _next_beams(llm, group, sequences, [next(logits) for _ in sequences])
                continue
            while len(group.children) < group.width:  # the prompt is computed, once, for all
                sequences.append(_fork(llm, group, sequences[0], sequences[0].num_tokens))
            tokens = [next(token_ids) for _ in sequences]
            sampled |= assign(sequences, tokens, llm.executor.sampler, llm.events)
        return sampled


def _known(llm: LLM) -> set[str]:
    """All requests that the trace remembers."""
    events = llm.recorder.trace.events if llm.recorder else []
    return {e.request_id for e in events if isinstance(e, ev.RequestFinished)}


def _rows(llm: LLM, batch: list[ScheduledRequest]) -> list[tuple[SequenceGroup, dict[str, int]]]:
    """The groups that run in this step, and the rows of their sequences in the batch."""
    rows = {part.request_id: row for row, part in enumerate(batch)}
    groups = [
        (group, {s.request_id: rows[s.request_id] for s in group.get_seqs() if s.request_id in rows})
        for group in llm.scheduler.running
    ]
    return [(group, of_group) for group, of_group in groups if of_group]


def _next_beams(
    llm: LLM, group: SequenceGroup, beams: list[Request], logits: Sequence[Sequence[float]]
) -> dict[str, int]:
    """``logits`` [beams, vocabulary]. Who goes on, and with which token; whoever is not in it dies."""
    going_on = group.beam.advance(beams, logits)
    sequences: list[Request] = []
    for proposal in going_on:
        # The first proposal of a beam that survives is its own; for each further one a child forks.
        beam = proposal.parent
        sequences.append(_fork(llm, group, beam, beam.num_tokens) if beam in sequences else beam)
    group.beam.cum_logprob = {s.request_id: p.cum_logprob for s, p in zip(sequences, going_on, strict=True)}
    return assign(sequences, [p.token_id for p in going_on], group.beam.advance, llm.events)


def _fork(llm: LLM, group: SequenceGroup, parent: Request, num_computed: int, seed: int | None = None) -> Request:
    """A child of ``parent``, ``num_computed`` of whose tokens are in memory."""
    group.num_forks += 1
    child = parent.fork(
        f"{group.request_id}/{group.num_forks}", answer_seed(group.seed, group.num_forks) if seed is None else seed
    )
    child.num_computed_tokens = num_computed
    llm.kv_cache_manager.fork(parent, child)
    table = llm.tables[parent.request_id]
    llm.tables[child.request_id] = llm.parts["block_table"](llm.config.block_size)
    llm.tables[child.request_id].append(table.block_ids)
    group.children.append(child)
    llm.requests[child.request_id] = child
    return child
