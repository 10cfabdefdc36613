"""The engine: requests in, one step at a time, tokens out."""

from __future__ import annotations

import copy
import operator
import time
import warnings
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from pagedlab.engine import refusals
from pagedlab.engine import snapshot as snapshots
from pagedlab.engine.beam import BeamSearchOutput, BeamSearchParams
from pagedlab.engine.config import config_of
from pagedlab.engine.eras import ERAS
from pagedlab.engine.events import EngineEvents, trace_header
from pagedlab.engine.output import is_stop, output_of
from pagedlab.engine.prompts import Prompt, check_text, encode, name_for, several
from pagedlab.engine.request import Request, RequestOutput, SamplingParams
from pagedlab.engine.sampling import answer_seed, request_seed
from pagedlab.engine.scheduler import SchedulerOutput
from pagedlab.engine.sequence_group import SequenceGroup
from pagedlab.engine.step_under_way import StepUnderWay, batch_of, forgetting
from pagedlab.errors import PagedlabError
from pagedlab.executor import Executor, find_executor
from pagedlab.kv.block_table import BlockTable
from pagedlab.trace import events as ev
from pagedlab.trace.recorder import Recorder, Trace


class LLM:
    """A language model over a paged KV pool.

    model: "smollm2" (None), "tiny-random", "tiny-random-hybrid" (with sliding windows), a local Hugging Face folder, a
    hub name, or another ``LLM``, to share its weights.
    device: None takes CUDA where there is one. dtype: None is float32 on a CPU; on a GPU bfloat16 where it has that,
    else float16. executor: a :class:`pagedlab.executor.Executor` that has its model already, instead of these three.
    record: keep every event in :attr:`trace`, for the labs.
    knobs: see :class:`EngineConfig`. ``era`` names the strategy, :class:`pagedlab.engine.v1.V1` or
    :class:`pagedlab.engine.paper.Paper`.

    A learner's parts replace ours: ``block_pool``, ``kv_cache_manager``, ``scheduler`` and ``block_table`` are what
    makes the part (a class will do); the era says with which arguments. ``attention`` is called like
    ``pagedlab.attention.paged_attention``, by an executor that can.

    Source: vLLM ``entrypoints/llm.py`` and ``v1/engine/core.py``, here in one process.
    """

    def __init__(
        self,
        model: str | LLM | None = None,
        *,
        device: Any = None,
        dtype: Any = None,
        executor: Executor | None = None,
        record: bool = False,
        block_pool: Callable[..., Any] | None = None,
        kv_cache_manager: Callable[..., Any] | None = None,
        scheduler: Callable[..., Any] | None = None,
        block_table: Callable[[int], Any] | None = None,
        attention: Callable[..., Any] | None = None,
        **knobs: Any,
    ) -> None:
        self.config = k = config_of(knobs, record=record)
        self.era = ERAS[k.era]
        given = {
            "block_pool": block_pool,
            "kv_cache_manager": kv_cache_manager,
            "scheduler": scheduler,
            "block_table": block_table,
            "attention": attention,
        }
        for name, part in given.items():
            if part is not None and not callable(part):
                raise PagedlabError(f"{name} is {part!r}; give a class (itself, not one of its objects) or a function.")
        self.parts = self.era.PARTS | {name: part for name, part in given.items() if part is not None}

        self.executor = find_executor(executor, model, device=device, dtype=dtype, config=k)
        if reason := refusals.executor_cannot(self.executor, attention, k.batch_invariant):
            raise PagedlabError(reason)
        if attention is not None:
            self.executor.attention = attention
        self.tokenizer, self.model_config = self.executor.tokenizer, self.executor.model_config
        most = self.model_config.max_model_len
        self.max_model_len = min(k.max_model_len or most, most)
        resolved = copy.copy(k)
        resolved.max_model_len = self.max_model_len
        self.pool_budget = self.executor.plan(resolved)
        self.num_blocks = self.pool_budget.num_blocks
        self.num_cpu_blocks = self.pool_budget.num_cpu_blocks
        self._warn_of_a_small_pool(model)
        self.executor.initialize(resolved, self.pool_budget)
        self.device_name: str = (described := self.executor.describe())["device"]  # "CPU", or the GPU's name
        if k.async_scheduling and self.device_name == "CPU" and not isinstance(model, LLM):
            warnings.warn(refusals.NOTHING_TO_OVERLAP, RuntimeWarning, stacklevel=2)

        self.recorder: Recorder | None = None
        if record:
            sizes = {name: getattr(self, name) for name in ("num_blocks", "num_cpu_blocks", "max_model_len")}
            self.recorder = Recorder(trace_header(described, k, self.model_config, **sizes))
        self.events = EngineEvents(self.recorder, self.tokenizer)
        limits = {name: getattr(resolved, name) for name in ("max_num_seqs", "max_num_batched_tokens", "max_model_len")}
        self.block_pool, self.kv_cache_manager, self.scheduler = self.era.make_parts(self, limits)

        self.under_way: deque[StepUnderWay] = deque()  # planned, and not taken in yet
        self.requests: dict[str, Request] = {}  # unfinished ones
        self.tables: dict[str, BlockTable] = {}  # of running requests: what the model reads
        self.groups: dict[str, SequenceGroup] = {}  # prompts whose output is not complete
        self.used_blocks: set[int] = set()  # that ever held something: all others are zero still
        self.step_count = 0
        self.num_requests = 0
        self.inputs: list[tuple[int, str, tuple, dict]] = []  # asked from outside: after which step, what

    def _warn_of_a_small_pool(self, sharing: Any) -> None:
        """Where vLLM would not start. Only for a length that somebody asked for: the model's own limit is thousands of
        tokens, and whoever sets up a pool of ten blocks to look at knows that it does not hold those. ``sharing``: the
        engine whose weights this one takes; what it has said is not said again by each of its branches."""
        self.pool_warning = None
        if self.config.max_model_len is not None:
            self.pool_warning = refusals.pool_below_max_model_len(
                self.max_model_len,
                blocks_for=partial(self.era.blocks_for, self),
                block_size=self.config.block_size,
                usable_blocks=self.num_blocks - self.era.NUM_NULL_BLOCKS,
                bytes_per_block=self.pool_budget.bytes_per_block,
            )
        if self.pool_warning and self.pool_warning != getattr(sharing, "pool_warning", None):
            warnings.warn(self.pool_warning, RuntimeWarning, stacklevel=3)

    @property
    def model(self) -> Any:
        """The model in torch, for lessons; the engine itself needs the executor alone."""
        return self.executor.model

    @property
    def kv_pool(self) -> Any:
        """The tensors of the pool, for lessons; ``executor.read_block`` reads a block on any device."""
        return self.executor.kv_pool

    def close(self) -> None:
        """Give the device's memory back now. This engine can run nothing any more; others on its weights can."""
        self.executor.close()

    # ------------------------------------------------------------------------------------------------- requests

    def add_request(
        self,
        prompt: Prompt,
        sampling_params: SamplingParams | BeamSearchParams | None = None,
        *,
        request_id: str | None = None,
        salt: str = "",
    ) -> str:
        """Queue a prompt (text or token ids). Returns its id: A, B, C … unless ``request_id`` gives one.

        Requests with different ``salt`` share no cached prefix. Raises PagedlabError, and queues nothing, for a
        prompt that can never run here: empty, with unknown token ids, beyond the context, or larger than the whole
        pool.
        """
        params = sampling_params or SamplingParams()
        token_ids = self._encode(prompt)
        check_text(request_id=request_id, salt=salt)
        request_id = name_for(request_id, self.num_requests, self.groups)
        self._check_fits(token_ids, params, request_id)
        self.log("add_request", token_ids, params, request_id=request_id, salt=salt)

        text = prompt if isinstance(prompt, str) else None
        group = SequenceGroup(request_id, text, token_ids, width=params.n)
        self.era.add_to_queue(self, group, params, salt)
        self.groups[request_id] = group
        self.num_requests += 1
        return request_id

    def new_request(self, group: SequenceGroup, index: int, params: SamplingParams, salt: str = "") -> Request:
        """For the era: answer ``index`` to a prompt, not yet queued."""
        seed = request_seed(self.config.seed, self.num_requests) if params.seed is None else params.seed
        request = Request(
            group.request_id if group.width == 1 else f"{group.request_id}/{index}",
            group.prompt_token_ids,
            params,
            block_size=self.config.block_size,
            enable_caching=self.config.enable_prefix_caching,
            salt=salt,
            seed=answer_seed(seed, index),
        )
        group.children.append(request)
        self.requests[request.request_id] = request
        self.events.arrived(request, self.add_request)
        return request

    def abort_request(self, request_id: str) -> None:
        """End a request now and free its blocks. Raises PagedlabError for an unknown id."""
        if request_id not in self.groups:
            unfinished = ", ".join(self.groups) or "none"
            raise PagedlabError(f"There is no unfinished request {request_id!r}; unfinished are: {unfinished}.")
        self.log("abort_request", request_id)
        for request in self.groups.pop(request_id).children:
            if self.scheduler.abort(request.request_id):
                self._forget(request, self.scheduler.abort)

    def has_unfinished_requests(self) -> bool:
        """Is there anything left to do? Under ``async_scheduling`` that may be a step whose tokens nobody wants."""
        return self.scheduler.has_unfinished_requests() or bool(self.under_way)

    def generate(
        self,
        prompts: Prompt | Sequence[Prompt],
        sampling_params: SamplingParams | Sequence[SamplingParams | None] | BeamSearchParams | None = None,
        *,
        use_tqdm: bool = False,
    ) -> list[RequestOutput]:
        """Run one prompt or several to their end; outputs in the prompts' order. Params: one for all, or one each.

        Every prompt is checked before the first one is queued. On an error or Ctrl-C those unfinished are aborted, so
        that the engine stays usable.
        """
        from tqdm.auto import tqdm

        prompts = several(prompts)
        if not isinstance(sampling_params, (list, tuple)):
            sampling_params = [sampling_params] * len(prompts)
        if len(sampling_params) != len(prompts):
            raise PagedlabError(
                f"{len(prompts)} prompts but {len(sampling_params)} sampling_params; give one for all, or one for each."
            )
        params = [p or SamplingParams() for p in sampling_params]
        for prompt, p in zip(prompts, params, strict=True):
            self._check_fits(self._encode(prompt), p)
        done: dict[str, RequestOutput] = {}
        ids: list[str] = []
        try:
            with tqdm(total=len(prompts), unit="request", desc="generate", disable=not use_tqdm) as progress:
                for prompt, p in zip(prompts, params, strict=True):
                    ids.append(self.add_request(prompt, p))
                idle = 0
                while len(done) < len(ids):
                    outputs = self.step()
                    finished = [output for output in outputs if output.finished and output.request_id in ids]
                    idle = 0 if outputs or self.tables else idle + 1
                    if idle > 10:
                        raise PagedlabError("The scheduler ran nobody for 10 steps, though requests wait.")
                    done |= {output.request_id: output for output in finished}
                    progress.update(len(finished))
        finally:
            for request_id in ids:
                if request_id in self.groups:
                    self.abort_request(request_id)
            while self.under_way and not self.scheduler.has_unfinished_requests():
                self.step()
        return [done[request_id] for request_id in ids]

    def chat(self, messages: Sequence[dict[str, str]], sampling_params: SamplingParams | None = None) -> RequestOutput:
        """Answer a conversation, ``[{"role": "user", "content": "…"}]``, put into the model's chat template."""
        return self.generate(self.tokenizer.chat(messages), sampling_params)[0]

    def beam_search(self, prompts: Prompt | Sequence[Prompt], params: BeamSearchParams) -> list[BeamSearchOutput]:
        """The ``beam_width`` likeliest continuations of each prompt, the best first. Needs ``era="paper"``.

        Every prompt is checked before the first one is queued: PagedlabError for one that can never run here, or a
        width that the pool cannot hold.
        """
        return self.era.beam_search(self, prompts, params)

    def fork_request(self, request_id: str, *, seed: int | None = None) -> str:
        """A second sequence that goes on from where ``request_id`` stands, sharing all its blocks. Returns its id.
        Needs ``era="paper"``.

        ``seed``: of its draws from here on (None: one that follows from the prompt's seed and the number of the fork).
        Raises PagedlabError, and changes nothing, for a request that does not run (unknown, waiting, swapped out,
        finished), a beam, and where one more could become too many for the pool.
        """
        return self.era.fork_request(self, request_id, seed)

    # ---------------------------------------------------------------------------------------------------- steps

    def step(self) -> list[RequestOutput]:
        """One step: schedule, run the model once, sample. Returns the outputs of the prompts that got a token in it.

        Under ``async_scheduling`` the step is planned and sent off, and the outputs are those of the step before.
        Does nothing, and returns an empty list, where there is nothing to do.
        """
        if not self.has_unfinished_requests():
            return []
        self.step_count += 1
        started, num_tokens, outputs = time.perf_counter(), 0, []
        with self.events.held(bool(self.under_way)):  # what is planned now happens after what is under way
            self.events.emit(ev.StepStarted, self.step, step=self.step_count)
            if plans := self.scheduler.has_unfinished_requests():
                self.under_way.append(self._start())
                num_tokens = sum(self.under_way[-1].output.num_scheduled_tokens.values())
            if not plans or len(self.under_way) > self.config.async_scheduling:  # one step ahead, or none
                outputs = self._finish(self.under_way.popleft())
        self.events.emit(
            ev.StepEnded,
            self.step,
            step=self.step_count,
            num_tokens=num_tokens,
            seconds=time.perf_counter() - started,
            device=self.device_name,
        )
        return outputs

    def _start(self) -> StepUnderWay:
        """The first half of a step: schedule, and hand the batch to the executor, which need not be done with it."""
        step = StepUnderWay(self.scheduler.schedule())
        with forgetting(self, step.output):
            self._apply_schedule(step.output)
            step.batch = batch_of(self, step.output)
            step.requests = [self.requests[part.request_id] for part in step.batch]
            if step.batch:
                step.sampling = self.era.sampling(self, step.batch)
                step.handle = self.executor.submit(step.batch, step.sampling)
            if not self.events.are_held:
                self.events.written(step.batch)
        if self.config.async_scheduling:
            self.scheduler.update_after_schedule(step.output)
        return step

    def _finish(self, step: StepUnderWay) -> list[RequestOutput]:
        """The second half: wait for the tokens, and take them in."""
        with forgetting(self, step.output):
            step.wait(self.executor)
            is_ahead, planned = self.events.are_held, self.events.let_go()
            sampled = self.era.sampled(self, step, step.chosen) if step.chosen else {}
        self.events.emit_all(planned)
        if is_ahead and self.under_way:
            self.events.written(self.under_way[-1].batch, sampled)
        finished = self.scheduler.update_from_output(step.output, sampled, lambda r: is_stop(r, self.tokenizer))
        outputs = self._outputs(sampled)
        for request in finished:
            self._forget(request, self.scheduler.update_from_output)
        return outputs

    def _apply_schedule(self, output: SchedulerOutput) -> None:
        """Bring the tables that the model reads up to date with what the scheduler decided."""
        self.events.scheduled(output, self.scheduler.schedule)
        for request in output.preempted:
            del self.tables[request.request_id]
        for request in output.admitted:
            self.tables[request.request_id] = self.era.make_table(self)
        for request_id, block_ids in output.new_block_ids.items():
            self.tables[request_id].append(block_ids)
            self.used_blocks.update(*(block_ids if self.model_config.has_groups else [block_ids]))
        self.era.move_blocks(self, output)

    def _outputs(self, sampled: dict[str, int]) -> list[RequestOutput]:
        """The outputs of prompts that got a token; complete ones leave the engine."""
        for group in self.groups.values():
            group.children = [r for r in group.children if r.finish_reason != "dropped"]
        touched = [g for g in self.groups.values() if g.finished or any(r.request_id in sampled for r in g.children)]
        outputs = [output_of(group, self.tokenizer) for group in touched]
        for output in outputs:
            if output.finished:
                del self.groups[output.request_id]
        return outputs

    def _forget(self, request: Request, by: Callable[..., Any]) -> None:
        self.tables.pop(request.request_id, None)
        del self.requests[request.request_id]
        self.events.emit(ev.RequestFinished, by, request_id=request.request_id, reason=request.finish_reason)

    # ------------------------------------------------------------------------------ edits, time travel and trace

    def remap(self, request_id: str, logical_block: int, block_id: int) -> None:
        """Point one entry of a running request's table at another physical block: the model goes on with what lies
        there.

        Only what the model reads changes; the manager still owns the blocks it gave, so nothing is lost when the
        request ends. The trace is marked as edited. Raises PagedlabError for an entry or a block that does not exist.
        """
        reason = refusals.no_entry(self.tables, request_id, logical_block, block_id, self.num_blocks)
        if reason:
            raise PagedlabError(reason)
        logical_block, block_id = operator.index(logical_block), operator.index(block_id)
        self.log("remap", request_id, logical_block, block_id)
        table = self.tables[request_id]
        old = table.block_ids[logical_block]
        table.block_ids[logical_block] = block_id
        self.used_blocks.add(block_id)  # it may be written to from now on
        self.events.emit(
            ev.TableEdited,
            self.remap,
            request_id=request_id,
            logical_block=logical_block,
            old_block_id=old,
            new_block_id=block_id,
        )

    def set_copy_on_write(self, on: bool) -> None:
        """Switch copy-on-write off, or on again: while it is off, whoever writes into a shared block overwrites what
        the others have there, and the model goes on with that. The trace is marked as edited. Needs ``era="paper"``.

        Raises PagedlabError where ``on`` is no bool, and for a learner's manager that has no ``set_copy_on_write``.
        """
        self.era.set_copy_on_write(self, on)

    def snapshot(self) -> snapshots.Snapshot:
        """Everything that a step can change, the bytes of all blocks that were ever in use included."""
        return snapshots.take(self)

    def restore(self, snapshot: snapshots.Snapshot) -> None:
        """Undo everything since ``snapshot``, the trace included. A snapshot can be restored more than once."""
        snapshots.restore(self, snapshot)

    def rerun(self, upto_step: int, *, prompts: Mapping[str, Prompt] | None = None, **changes: Any) -> LLM:
        """A second engine on the same weights that got the same inputs and ran to ``upto_step``.

        ``prompts``: other prompts for requests that were queued by then, by their ids. ``changes``: other knobs or
        parts. Raises PagedlabError for a step that is no whole number from 0 on, an unknown request, and where the
        engine keeps no trace (``record=True``).
        """
        _ = self.trace
        return snapshots.rerun(self, upto_step, {} if prompts is None else prompts, changes)

    @property
    def trace(self) -> Trace:
        """Every event so far. Raises PagedlabError where the engine was made without ``record=True``."""
        if self.recorder is None:
            raise PagedlabError("This engine keeps no trace. Make it with LLM(..., record=True).")
        return self.recorder.trace

    def log(self, name: str, *args: Any, **kwargs: Any) -> None:
        """For the era: what was asked from outside, so that a second run can be asked the same."""
        if self.recorder:  # an engine that nobody watches keeps no growing list
            self.inputs.append((self.step_count, name, args, kwargs))

    # ----------------------------------------------------------------------------------------------- bad input

    def _encode(self, prompt: Prompt) -> list[int]:
        return encode(prompt, self.tokenizer, self.model_config.vocab_size)

    def _check_fits(self, token_ids: list[int], params: SamplingParams, request_id: str | None = None) -> None:
        """Raises PagedlabError for a request that could never finish here; a named one is told to the trace as
        refused."""
        if not isinstance(params, (SamplingParams, BeamSearchParams)):
            raise PagedlabError(f"sampling_params is {params!r}; it must be SamplingParams(...).")
        reason = refusals.unknown_stop_token(params, self.model_config.vocab_size)
        if reason:
            raise PagedlabError(reason)
        reason = refusals.prompt_too_long(len(token_ids), self.max_model_len)
        reason = reason or self.era.why_never(self, len(token_ids), params)
        if reason:
            if request_id is not None:
                self.events.refused(request_id, reason, params.max_tokens, self.add_request)
            raise PagedlabError(reason)
