"""The engine of the paper's era: a prompt is computed once, then forks; blocks are copied on write, and swapped.

Only what differs from V1 stands here: which parts are made, how a prompt is queued, which bytes move before the model
runs, and who forks before tokens are chosen.

Source: the paper, sections 4.3 to 4.5; vLLM v0.2.0 ``engine/llm_engine.py`` and ``worker/cache_engine.py``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

import torch

from pagedlab.engine.beam import BeamSearch, BeamSearchOutput, BeamSearchParams, BeamSearchSequence
from pagedlab.engine.llm import LLM, Prompt
from pagedlab.engine.paper_scheduler import PaperScheduler, PaperSchedulerOutput
from pagedlab.engine.request import CompletionOutput, Request, RequestOutput, SamplingParams
from pagedlab.engine.runner import ScheduledRequest
from pagedlab.engine.sampling import answer_seed, sample
from pagedlab.engine.sequence_group import SequenceGroup
from pagedlab.engine.swap_space import SwapSpace
from pagedlab.errors import PagedlabError, whole
from pagedlab.kv.observed_paper import ObservedBlockSpaceManager
from pagedlab.kv.paper import BlockAllocator, BlockSpaceManager
from pagedlab.trace import events as ev


class PaperLLM(LLM):
    """What ``LLM(..., era="paper")`` makes. Same calls, same answers; other decisions about memory.

    Parts that can be replaced: ``block_pool(num_blocks)`` (each of the two pools), ``kv_cache_manager(block_size,
    num_gpu_blocks, num_cpu_blocks, block_allocator=)``, ``scheduler(kv_cache_manager, max_num_seqs=,
    max_num_batched_tokens=, max_model_len=, preemption=)``, and ``block_table`` and ``attention`` as in V1.
    """

    PARTS: ClassVar[dict[str, Any]] = LLM.PARTS | {
        "block_pool": BlockAllocator,
        "kv_cache_manager": BlockSpaceManager,
        "scheduler": PaperScheduler,
    }

    def _make_parts(self, limits: dict[str, int]) -> None:
        self.kv_cache_manager = self.parts["kv_cache_manager"](
            self.config.block_size, self.num_blocks, self.num_cpu_blocks, block_allocator=self.parts["block_pool"]
        )
        if self.recorder:
            self.kv_cache_manager = ObservedBlockSpaceManager(self.kv_cache_manager, self.recorder)
        self.block_pool = self.kv_cache_manager.gpu_allocator
        self.scheduler = self.parts["scheduler"](self.kv_cache_manager, preemption=self.config.preemption, **limits)
        self.swap_space = SwapSpace(self.kv_pool, self.num_cpu_blocks)

    def pools(self) -> list[tuple[list[Any], torch.Tensor]]:
        manager = self.kv_cache_manager
        return [(manager.gpu_allocator.blocks, self.kv_pool.data), (manager.cpu_allocator.blocks, self.swap_space.data)]

    # ------------------------------------------------------------------------------------------------------- requests

    def _queue(self, group: SequenceGroup, params: SamplingParams | BeamSearchParams, salt: str) -> None:
        """One sequence for the prompt; the others fork from it once it is computed. (There is no prefix cache to
        salt.)"""
        if isinstance(params, BeamSearchParams):
            eos = frozenset(self.tokenizer.eos_token_ids)
            group.beam = BeamSearch(params, eos, len(group.prompt_token_ids))
            params = SamplingParams(max_tokens=params.max_tokens, ignore_eos=True)  # the search sees to ends of text
        request = self._new_request(group, 0, params)
        group.seed = request.seed
        self.scheduler.add_request(group)
        self.events.emit(ev.RequestQueued, self.scheduler.add_request, request_id=request.request_id)

    def fork_request(self, request_id: str, *, seed: int | None = None) -> str:
        """A second sequence that goes on from where ``request_id`` stands, sharing all its blocks. Returns its id.

        ``seed``: of its draws from here on (None: one that follows from the prompt's seed and the number of the fork).
        Raises PagedlabError, and changes nothing, for a request that does not run (unknown, waiting, swapped out,
        finished), a beam, and where one more could become too many for the pool.
        """
        seed = None if seed is None else whole(seed, "seed")
        parent = self.requests.get(request_id)
        if parent is None or parent.status != "running":
            running = ", ".join(r.request_id for r in self.requests.values() if r.status == "running") or "none"
            what = parent.status if parent else "finished" if request_id in self._known() else "unknown"
            raise PagedlabError(f"Request {request_id!r} is {what} and cannot be forked; running are: {running}.")
        group = next(g for g in self.groups.values() if parent in g.children)
        if group.beam:
            raise PagedlabError(f"Request {request_id!r} is a beam; its search alone decides who forks.")
        wider = dataclasses.replace(parent.sampling_params, n=group.width + 1)
        reason = self._why_no_room(parent.num_prompt_tokens, wider)
        if reason:
            raise PagedlabError(reason)
        most = self.scheduler.max_num_seqs
        # Those swapped out come back without being asked whether they are too many.
        if sum(g.width for g in (*self.scheduler.running, *self.scheduler.swapped)) >= most:
            raise PagedlabError(
                f"Request {request_id!r} cannot be forked: {most} sequences run already (max_num_seqs, or "
                "max_num_batched_tokens where that is less)."
            )
        self._log("fork_request", request_id, seed=seed)
        group.width += 1
        return self._fork(group, parent, parent.num_computed_tokens, seed).request_id

    def set_copy_on_write(self, on: bool) -> None:
        """Switch copy-on-write off, or on again: while it is off, whoever writes into a shared block overwrites what
        the others have there, and the model goes on with that. The trace is marked as edited.

        Raises PagedlabError where ``on`` is no bool, and for a learner's manager that has no ``set_copy_on_write``.
        """
        if not isinstance(on, bool):
            raise PagedlabError(f"on is {on!r}; it must be True or False.")
        switch = getattr(self.kv_cache_manager, "set_copy_on_write", None)
        if switch is None:
            raise PagedlabError("This engine's kv_cache_manager cannot switch copy-on-write: use pagedlab's own.")
        self._log("set_copy_on_write", on)
        switch(on)
        self.events.emit(ev.CopyOnWriteSwitched, switch, on=on)

    def _known(self) -> set[str]:
        """All requests that the trace remembers."""
        events = self.recorder.trace.events if self.recorder else []
        return {e.request_id for e in events if isinstance(e, ev.RequestFinished)}

    def beam_search(self, prompts: Prompt | Sequence[Prompt], params: BeamSearchParams) -> list[BeamSearchOutput]:
        """The ``beam_width`` likeliest continuations of each prompt, the best first.

        Every prompt is checked before the first one is queued: PagedlabError for one that can never run here, or a
        width that the pool cannot hold.
        """
        if not isinstance(params, BeamSearchParams):
            raise PagedlabError(
                f"beam_search takes BeamSearchParams(beam_width=, max_tokens=), not {type(params).__name__}."
            )
        outputs = []
        for output in self.generate(prompts, params):
            sequences = [
                BeamSearchSequence(output.prompt_token_ids + o.token_ids, o.cumulative_logprob, o.text, o.finish_reason)
                for o in output.outputs
            ]
            outputs.append(BeamSearchOutput(sequences))
        return outputs

    # ---------------------------------------------------------------------------------------------------------- steps

    def _apply_schedule(self, output: PaperSchedulerOutput) -> None:
        super()._apply_schedule(output)
        for request_id, (logical_block, block_id) in output.retargeted.items():
            self.tables[request_id].block_ids[logical_block] = block_id
            self.used_blocks.add(block_id)
        # In this order: a block that was swapped out may be swapped into, or copied to, in the same step.
        self.swap_space.swap_out(output.blocks_to_swap_out)
        self.swap_space.swap_in(output.blocks_to_swap_in)
        self.kv_pool.copy_blocks(output.blocks_to_copy)

    def _run(self, batch: list[ScheduledRequest]) -> dict[str, int]:
        """Run the model over the batch; every sequence in it chooses its next token, and those that part fork first."""
        logits = self.runner.run(batch)
        self.events.written(batch)
        rows = {part.request_id: row for row, part in enumerate(batch)}  # all of them end at their last token
        sampled: dict[str, int] = {}
        for group in self.scheduler.running:
            sequences = [s for s in group.get_seqs() if s.request_id in rows]
            if not sequences:
                continue
            if group.beam:
                sampled |= self._next_beams(group, sequences, logits[[rows[s.request_id] for s in sequences]])
                continue
            group_rows = [rows[s.request_id] for s in sequences]
            while len(group.children) < group.width:  # the prompt is computed, once, for all
                sequences.append(self._fork(group, sequences[0], sequences[0].num_tokens))
                group_rows.append(group_rows[0])
            tokens = sample(
                logits[group_rows],
                [s.sampling_params for s in sequences],
                [s.seed for s in sequences],
                [s.num_tokens for s in sequences],
            )
            sampled |= self._sampled(sequences, tokens, sample)
        return sampled

    def _next_beams(self, group: SequenceGroup, beams: list[Request], logits: torch.Tensor) -> dict[str, int]:
        """``logits`` [beams, vocabulary]. Who goes on, and with which token; whoever is not in it dies."""
        going_on = group.beam.advance(beams, torch.log_softmax(logits, dim=-1))
        sequences: list[Request] = []
        for proposal in going_on:
            # The first proposal of a beam that survives is its own; for each further one a child forks.
            beam = proposal.parent
            sequences.append(self._fork(group, beam, beam.num_tokens) if beam in sequences else beam)
        group.beam.cum_logprob = {s.request_id: p.cum_logprob for s, p in zip(sequences, going_on, strict=True)}
        return self._sampled(sequences, [p.token_id for p in going_on], group.beam.advance)

    def _sampled(self, sequences: list[Request], tokens: list[int], by: Any) -> dict[str, int]:
        for sequence, token in zip(sequences, tokens, strict=True):
            self.events.sampled(sequence, token, by)
        return {sequence.request_id: token for sequence, token in zip(sequences, tokens, strict=True)}

    def _fork(self, group: SequenceGroup, parent: Request, num_computed: int, seed: int | None = None) -> Request:
        """A child of ``parent``, ``num_computed`` of whose tokens are in memory."""
        group.num_forks += 1
        child = parent.fork(
            f"{group.request_id}/{group.num_forks}", answer_seed(group.seed, group.num_forks) if seed is None else seed
        )
        child.num_computed_tokens = num_computed
        self.kv_cache_manager.fork(parent, child)
        table = self.tables[parent.request_id]
        self.tables[child.request_id] = self.parts["block_table"](self.config.block_size)
        self.tables[child.request_id].append(table.block_ids)
        group.children.append(child)
        self.requests[child.request_id] = child
        return child

    def _outputs(self, sampled: dict[str, int]) -> list[RequestOutput]:
        for group in self.groups.values():
            group.children = [r for r in group.children if r.finish_reason != "dropped"]
        return super()._outputs(sampled)

    def _output(self, group: SequenceGroup) -> RequestOutput:
        if not group.beam:
            return super()._output(group)
        completions = []
        for index, answer in enumerate(group.beam.best(group.children)):
            text = self._text(answer.token_ids, answer.finish_reason == "stop")
            # Until the search is over, even an answer that has come to its end may still be outdone.
            reason = answer.finish_reason if group.finished else None
            completions.append(CompletionOutput(index, text, answer.token_ids, reason, answer.cum_logprob))
        return RequestOutput(group.request_id, group.prompt, group.prompt_token_ids, completions, 0)

    # ------------------------------------------------------------------------------------------------------ bad input

    def _why_no_room(self, n: int, params: SamplingParams | BeamSearchParams) -> str | None:
        """The worst case must fit, so that whoever is admitted can finish: nothing but the prompt's full blocks is
        shared."""
        width, block_size = params.n, self.config.block_size
        longest = min(n + params.max_tokens, self.max_model_len) - 1  # the last token is never written
        shared = n // block_size
        blocks = shared + width * (-(-longest // block_size) - shared)
        # Free blocks that must be left: one for each sequence when it decodes, and the watermark.
        spare = width + self.kv_cache_manager.watermark_blocks
        what = f"{n} prompt tokens, {width} times up to {params.max_tokens} new ones, {block_size} a block"
        less = "beam_width" if isinstance(params, BeamSearchParams) else "n"
        if blocks + spare > self.num_blocks:
            return (
                f"The pool is too small: this request may need {blocks} blocks ({what}) and {spare} free ones "
                "besides, and "
                f"there are {self.num_blocks}. Lower {less} or max_tokens, or give it more memory "
                "(gpu_memory_utilization, "
                "device_memory) or blocks (num_gpu_blocks_override)."
            )
        if width > self.scheduler.max_num_seqs:
            most = self.scheduler.max_num_seqs
            return f"{less} is {width}, and at most {most} sequences can run (max_num_seqs). Lower {less}."
        tokens = shared * block_size + width * (longest - shared * block_size)
        if tokens > self.config.max_num_batched_tokens:
            return (
                f"This request may have to be computed again in one step of {tokens} tokens ({what}), and "
                f"max_num_batched_tokens is {self.config.max_num_batched_tokens}; nothing is chunked in this era. "
                "Lower "
                f"{less} or max_tokens, or raise max_num_batched_tokens."
            )
        return None
