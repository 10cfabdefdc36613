"""The engine: requests in, one step at a time, tokens out."""

from __future__ import annotations

import dataclasses
import operator
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import torch

from pagedlab.attention import KVPool, paged_attention
from pagedlab.engine import snapshot as snapshots
from pagedlab.engine.beam import BeamSearchOutput, BeamSearchParams
from pagedlab.engine.config import EngineConfig
from pagedlab.engine.events import EngineEvents, device_name, trace_header
from pagedlab.engine.pool_size import plan_cpu_pool, plan_pool
from pagedlab.engine.request import CompletionOutput, Request, RequestOutput, SamplingParams
from pagedlab.engine.runner import ModelRunner, ScheduledRequest
from pagedlab.engine.sampling import answer_seed, request_seed, sample
from pagedlab.engine.scheduler import Scheduler, SchedulerOutput
from pagedlab.engine.sequence_group import SequenceGroup
from pagedlab.errors import PagedlabError, is_whole
from pagedlab.kv.block_pool import BlockPool
from pagedlab.kv.block_table import BlockTable
from pagedlab.kv.manager import KVCacheManager
from pagedlab.kv.observed import ObservedBlockPool, ObservedKVCacheManager
from pagedlab.model.weights import checked_device, load_model
from pagedlab.trace import events as ev
from pagedlab.trace.recorder import Recorder, Trace

Prompt = str | Sequence[int]
HALF = "\ufffd"  # how bytes that are no whole character (yet) are decoded


class LLM:
    """A language model over a paged KV pool.

    model: "smollm2", "tiny-random", a local Hugging Face folder, a hub name, or another ``LLM``, to share its weights.
    device: None takes CUDA where there is one.
    dtype: None is float32 on a CPU; on a GPU bfloat16 where it has that, else float16.
    record: keep every event in :attr:`trace`, for the labs.
    knobs: see :class:`EngineConfig`. With ``era="paper"`` this makes a :class:`pagedlab.engine.paper.PaperLLM`.

    A learner's parts replace ours. These make the part (a class will do): ``block_pool(num_gpu_blocks,
    enable_caching)``, ``kv_cache_manager(block_pool, block_size, max_model_len, enable_caching)``,
    ``scheduler(kv_cache_manager, max_num_seqs=, max_num_batched_tokens=, max_model_len=)``,
    ``block_table(block_size)``. ``attention`` is called like ``pagedlab.attention.paged_attention``.

    Source: vLLM ``entrypoints/llm.py`` and ``v1/engine/``, here in one process and synchronous.
    """

    PARTS: ClassVar[dict[str, Any]] = {
        "block_pool": BlockPool,
        "kv_cache_manager": KVCacheManager,
        "scheduler": Scheduler,
        "block_table": BlockTable,
        "attention": paged_attention,
    }

    def __new__(cls, *args: Any, **kwargs: Any) -> LLM:
        if cls is LLM and kwargs.get("era") == "paper":
            from pagedlab.engine.paper import PaperLLM

            return super().__new__(PaperLLM)
        return super().__new__(cls)

    def __init__(
        self,
        model: str | LLM = "smollm2",
        *,
        device: str | None = None,
        dtype: torch.dtype | str | None = None,
        record: bool = False,
        block_pool: Callable[..., Any] | None = None,
        kv_cache_manager: Callable[..., Any] | None = None,
        scheduler: Callable[..., Any] | None = None,
        block_table: Callable[[int], Any] | None = None,
        attention: Callable[..., torch.Tensor] | None = None,
        **knobs: Any,
    ) -> None:
        if not isinstance(record, bool):
            raise PagedlabError(f"record is {record!r}; it must be True (keep every event) or False.")
        self.config = k = _config(knobs)
        if isinstance(model, LLM):
            self.model, self.tokenizer = model.model, model.tokenizer
        else:
            device = _choose_device(device)
            self.model, self.tokenizer = load_model(
                model, device=device, dtype=_choose_dtype(dtype, device), seed=k.seed
            )
        c = self.model.config
        self.max_model_len = min(k.max_model_len or c.max_model_len, c.max_model_len)
        self.pool_budget = plan_pool(self.model, k, self.max_model_len)
        self.num_blocks = self.pool_budget.num_blocks
        self.num_cpu_blocks = plan_cpu_pool(k, self.pool_budget)
        given = {
            "block_pool": block_pool,
            "kv_cache_manager": kv_cache_manager,
            "scheduler": scheduler,
            "block_table": block_table,
            "attention": attention,
        }
        self.parts = self.PARTS | {name: part for name, part in given.items() if part is not None}

        self.recorder: Recorder | None = None
        if record:
            sizes = {name: getattr(self, name) for name in ("num_blocks", "num_cpu_blocks", "max_model_len")}
            self.recorder = Recorder(trace_header(self.model, k, **sizes))
        self.events = EngineEvents(self.recorder, self.tokenizer)

        try:
            self.kv_pool = KVPool(
                c.num_layers,
                self.num_blocks,
                k.block_size,
                c.num_kv_heads,
                c.head_size,
                self.model.dtype,
                self.model.device,
            )
        except MemoryError:  # of the CPU; torch.OutOfMemoryError says for itself what a GPU has
            raise PagedlabError(
                f"This machine has no memory for a pool of {self.num_blocks} blocks of {k.block_size} tokens. Lower "
                "num_gpu_blocks_override, block_size, or device_memory."
            ) from None
        limits = {
            "max_num_seqs": k.max_num_seqs,
            "max_num_batched_tokens": k.max_num_batched_tokens,
            "max_model_len": self.max_model_len,
        }
        self.runner = ModelRunner(self.model, self.kv_pool, self.parts["attention"], **limits)
        self._make_parts(limits)

        self.requests: dict[str, Request] = {}  # unfinished ones
        self.tables: dict[str, BlockTable] = {}  # of running requests: what the model reads
        self.groups: dict[str, SequenceGroup] = {}  # prompts whose output is not complete
        self.used_blocks: set[int] = set()  # that ever held something: all others are zero still
        self.step_count = 0
        self.num_requests = 0
        self.inputs: list[tuple[int, str, tuple, dict]] = []  # asked from outside: after which step, what

    def _make_parts(self, limits: dict[str, int]) -> None:
        """Pool, manager and scheduler; under a recorder the first two are watched."""
        k, parts = self.config, self.parts
        self.block_pool = parts["block_pool"](self.num_blocks, k.enable_prefix_caching)
        if self.recorder:
            self.block_pool = ObservedBlockPool(self.block_pool, k.block_size, self.recorder)
        self.kv_cache_manager = parts["kv_cache_manager"](
            self.block_pool, k.block_size, self.max_model_len, k.enable_prefix_caching
        )
        if self.recorder:
            self.kv_cache_manager = ObservedKVCacheManager(self.kv_cache_manager, self.block_pool, self.recorder)
        self.scheduler = parts["scheduler"](self.kv_cache_manager, **limits)

    def pools(self) -> list[tuple[list[Any], torch.Tensor]]:
        """Each pool's block records, and its bytes [layers, 2, blocks, block size, KV heads, head size]."""
        return [(self.block_pool.blocks, self.kv_pool.data)]

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
        for name, text in (("request_id", request_id), ("salt", salt)):
            if text is not None and not _is_text(text):
                raise PagedlabError(f"{name} is {text!r}; it must be a string.")
        if request_id is None:
            number = self.num_requests
            while self._clash(_letters(number)):
                number += 1
            request_id = _letters(number)
        clash = self._clash(request_id)
        if clash is not None:
            raise PagedlabError(
                f"There is already an unfinished request {clash!r}, and {request_id!r} is its name or that of one of "
                "its answers; give another request_id."
            )
        self._check_fits(token_ids, params, request_id)
        self._log("add_request", token_ids, params, request_id=request_id, salt=salt)

        text = prompt if isinstance(prompt, str) else None
        group = SequenceGroup(request_id, text, token_ids, width=params.n)
        self._queue(group, params, salt)
        self.groups[request_id] = group
        self.num_requests += 1
        return request_id

    def _clash(self, request_id: str) -> str | None:
        """The unfinished request that has this name, or whose answers may come to have it ("A/0"), or the other way
        round."""
        for other in self.groups:
            if request_id == other or _names_answer(request_id, other) or _names_answer(other, request_id):
                return other
        return None

    def _queue(self, group: SequenceGroup, params: SamplingParams, salt: str) -> None:
        """V1: the ``n`` answers to a prompt are ``n`` requests, and the scheduler never learns that they belong
        together."""
        for i in range(group.width):
            request = self._new_request(group, i, params, salt)
            self.scheduler.add_request(request)
            self.events.emit(ev.RequestQueued, self.scheduler.add_request, request_id=request.request_id)

    def _new_request(self, group: SequenceGroup, index: int, params: SamplingParams, salt: str = "") -> Request:
        request = Request(
            group.request_id if group.width == 1 else f"{group.request_id}/{index}",
            group.prompt_token_ids,
            params,
            block_size=self.config.block_size,
            enable_caching=self.config.enable_prefix_caching,
            salt=salt,
            seed=answer_seed(self._seed(params), index),
        )
        group.children.append(request)
        self.requests[request.request_id] = request
        self.events.arrived(request, self.add_request)
        return request

    def _seed(self, params: SamplingParams) -> int:
        return request_seed(self.config.seed, self.num_requests) if params.seed is None else params.seed

    def abort_request(self, request_id: str) -> None:
        """End a request now and free its blocks. Raises PagedlabError for an unknown id."""
        if request_id not in self.groups:
            unfinished = ", ".join(self.groups) or "none"
            raise PagedlabError(f"There is no unfinished request {request_id!r}; unfinished are: {unfinished}.")
        self._log("abort_request", request_id)
        for request in self.groups.pop(request_id).children:
            if self.scheduler.abort(request.request_id):
                self._forget(request, self.scheduler.abort)

    def has_unfinished_requests(self) -> bool:
        return self.scheduler.has_unfinished_requests()

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
        prompts = [prompts] if isinstance(prompts, (str, bytes)) else _listed(prompts)
        if prompts and hasattr(prompts[0], "__index__"):  # token ids, so it is one prompt
            prompts = [prompts]
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
            with _progress(len(prompts), use_tqdm) as progress:
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
        return [done[request_id] for request_id in ids]

    def chat(self, messages: Sequence[dict[str, str]], sampling_params: SamplingParams | None = None) -> RequestOutput:
        """Answer a conversation, ``[{"role": "user", "content": "…"}]``, put into the model's chat template."""
        return self.generate(self.tokenizer.chat(messages), sampling_params)[0]

    def beam_search(
        self, prompts: Prompt | Sequence[Prompt], params: BeamSearchParams
    ) -> list[BeamSearchOutput]:
        """The likeliest continuations of each prompt, the best first. Needs ``era="paper"``: else PagedlabError."""
        raise PagedlabError('Beam search forks sequences, which V1 cannot: make the engine with LLM(..., era="paper").')

    def fork_request(self, request_id: str, *, seed: int | None = None) -> str:
        """A second sequence that shares all blocks of a running one. Needs ``era="paper"``: else PagedlabError."""
        raise PagedlabError('V1 shares full blocks only and cannot fork: make the engine with LLM(..., era="paper").')

    # ---------------------------------------------------------------------------------------------------- steps

    def step(self) -> list[RequestOutput]:
        """One step: schedule, run the model once, sample. Returns the outputs of the prompts that got a token in it.

        Does nothing, and returns an empty list, where there is nothing to do.
        """
        if not self.has_unfinished_requests():
            return []
        self.step_count += 1
        started = time.perf_counter()
        self.events.emit(ev.StepStarted, self.step, step=self.step_count)
        output = self.scheduler.schedule()
        try:
            self._apply_schedule(output)
            batch = self._batch(output)
            sampled = self._run(batch) if batch else {}
        except BaseException:  # Ctrl-C, or an error in a part: the step can be tried again, or its requests aborted
            if hasattr(self.kv_cache_manager, "forget_unwritten"):
                self.kv_cache_manager.forget_unwritten([self.requests[name] for name in output.num_scheduled_tokens])
            raise
        finished = self.scheduler.update_from_output(output, sampled, self._is_stop)
        outputs = self._outputs(sampled)
        for request in finished:
            self._forget(request, self.scheduler.update_from_output)
        self.events.emit(
            ev.StepEnded,
            self.step,
            step=self.step_count,
            num_tokens=sum(output.num_scheduled_tokens.values()),
            seconds=time.perf_counter() - started,
            device=self.device_name,
        )
        return outputs

    def _apply_schedule(self, output: SchedulerOutput) -> None:
        """Bring the tables that the model reads up to date with what the scheduler decided."""
        self.events.scheduled(output, self.scheduler.schedule)
        for request in output.preempted:
            del self.tables[request.request_id]
        for request in output.admitted:
            self.tables[request.request_id] = self.parts["block_table"](self.config.block_size)
        for request_id, block_ids in output.new_block_ids.items():
            self.tables[request_id].append(block_ids)
            self.used_blocks.update(block_ids)

    def _batch(self, output: SchedulerOutput) -> list[ScheduledRequest]:
        batch = []
        for request_id, num_tokens in output.num_scheduled_tokens.items():
            request = self.requests[request_id]
            start = request.num_computed_tokens
            batch.append(
                ScheduledRequest(request_id, request.all_token_ids, start, start + num_tokens, self.tables[request_id])
            )
        return batch

    def _run(self, batch: list[ScheduledRequest]) -> dict[str, int]:
        """Run the model over the batch; sample for every request whose tokens are then all computed."""
        logits = self.runner.run(batch)
        self.events.written(batch)
        rows = [row for row, part in enumerate(batch) if part.end == len(part.token_ids)]
        requests = [self.requests[batch[row].request_id] for row in rows]
        tokens = sample(
            logits if len(rows) == len(batch) else logits[rows],
            [request.sampling_params for request in requests],
            [request.seed for request in requests],
            [request.num_tokens for request in requests],
        )
        for request, token in zip(requests, tokens, strict=True):
            self.events.sampled(request, token, sample)
        return {request.request_id: token for request, token in zip(requests, tokens, strict=True)}

    def _is_stop(self, request: Request) -> bool:
        """End of text, or a stop string in the output so far (the text will end before it)."""
        params = request.sampling_params
        if not params.ignore_eos and request.all_token_ids[-1] in self.tokenizer.eos_token_ids:
            return True
        if params.stop:
            text = self.tokenizer.decode(request.output_token_ids)
            whole = text.rstrip(HALF)  # what may still become another character is not searched
            places = [place for place in (whole.find(s) for s in params.stop) if place >= 0]
            if places:
                request.stop_at = min(places)
                return True
        return False

    def _outputs(self, sampled: dict[str, int]) -> list[RequestOutput]:
        """The outputs of prompts that got a token; complete ones leave the engine."""
        touched = [g for g in self.groups.values() if g.finished or any(r.request_id in sampled for r in g.children)]
        outputs = [self._output(group) for group in touched]
        for output in outputs:
            if output.finished:
                del self.groups[output.request_id]
        return outputs

    def _output(self, group: SequenceGroup) -> RequestOutput:
        completions = []
        for index, request in enumerate(group.children):
            token_ids = request.output_token_ids
            ended = request.finish_reason == "stop" and request.stop_at is None
            text = self._text(token_ids, ended)[: request.stop_at]
            completions.append(CompletionOutput(index, text, token_ids, request.finish_reason))
        num_cached = group.children[0].num_cached_tokens
        return RequestOutput(group.request_id, group.prompt, group.prompt_token_ids, completions, num_cached)

    def _text(self, token_ids: list[int], ended: bool) -> str:
        """An answer's text. ``ended``: its last token is the end of text, which is none of it; one that was ignored
        shows as any other token, and special tokens never do."""
        return self.tokenizer.decode(token_ids[:-1] if ended else token_ids)

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
        table = self.tables.get(request_id)
        if table is None:
            running = ", ".join(self.tables) or "none"
            raise PagedlabError(f"Request {request_id!r} is not running; running are: {running}.")
        if not is_whole(logical_block) or not 0 <= logical_block < len(table):
            raise PagedlabError(
                f"Request {request_id!r} has logical blocks 0 to {len(table) - 1}, not {logical_block}."
            )
        if not is_whole(block_id) or not 0 <= block_id < self.num_blocks:
            raise PagedlabError(f"There is no physical block #{block_id}; the pool has #0 to #{self.num_blocks - 1}.")
        logical_block, block_id = operator.index(logical_block), operator.index(block_id)
        self._log("remap", request_id, logical_block, block_id)
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
        """Switch copy-on-write off, or on again. Needs ``era="paper"``: else PagedlabError."""
        raise PagedlabError('V1 never copies a block: make the engine with LLM(..., era="paper").')

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

    @property
    def device_name(self) -> str:
        """ "CPU", or the GPU's name."""
        return device_name(self.model.device)

    def _log(self, name: str, *args: Any, **kwargs: Any) -> None:
        if self.recorder:  # an engine that nobody watches keeps no growing list
            self.inputs.append((self.step_count, name, args, kwargs))

    # ----------------------------------------------------------------------------------------------- bad input

    def _encode(self, prompt: Prompt) -> list[int]:
        if isinstance(prompt, str):
            if not _is_text(prompt):
                raise PagedlabError("The prompt holds half a character (a lone surrogate); it must be Unicode text.")
            given = self.tokenizer.encode(prompt)
        else:
            given = _listed(prompt)
        vocab_size = self.model.config.vocab_size
        ids = []
        for i in given:
            if not is_whole(i) or not 0 <= i < vocab_size:
                raise PagedlabError(f"Token id {i!r} is not in the vocabulary; allowed are 0 to {vocab_size - 1}.")
            ids.append(operator.index(i))  # numpy's and torch's whole numbers become plain ones
        return ids

    def _check_fits(self, token_ids: list[int], params: SamplingParams, request_id: str | None = None) -> None:
        """Raises PagedlabError for a request that could never finish here; a named one is told to the trace as
        refused."""
        if not isinstance(params, (SamplingParams, BeamSearchParams)):
            raise PagedlabError(f"sampling_params is {params!r}; it must be SamplingParams(...).")
        reason = self._why_never(token_ids, params)
        if reason:
            if request_id is not None:
                self.events.refused(request_id, reason, params.max_tokens, self.add_request)
            raise PagedlabError(reason)

    def _why_never(self, token_ids: list[int], params: SamplingParams) -> str | None:
        n = len(token_ids)
        if n == 0:
            return "The prompt is empty; give at least one token."
        if isinstance(params, BeamSearchParams) and self.config.era != "paper":
            return 'Beam search forks sequences, which V1 cannot: make the engine with LLM(..., era="paper").'
        if n >= self.max_model_len:
            return (
                f"The prompt has {n} tokens; max_model_len is {self.max_model_len}, which leaves room for at most "
                f"{self.max_model_len - 1}. Shorten the prompt."
            )
        return self._why_no_room(n, params)

    def _why_no_room(self, n: int, params: SamplingParams) -> str | None:
        """``n``: tokens of the prompt."""
        block_size = self.config.block_size
        # The token sampled last is never written, so it needs no slot.
        needed = -(-(min(n + params.max_tokens, self.max_model_len) - 1) // block_size)
        if needed > self.num_blocks - 1:
            return (
                f"The pool is too small: this request may need {needed} blocks ({n} prompt tokens and up to "
                f"{params.max_tokens} new ones, {block_size} a block), and there are {self.num_blocks - 1} besides "
                "the null block. Lower max_tokens, or give it more memory (gpu_memory_utilization, device_memory) "
                "or blocks (num_gpu_blocks_override)."
            )
        return None


def _letters(number: int) -> str:
    """0, 1, … as A, B, … Z, AA, AB, …: names short enough to stand on a block."""
    name = ""
    number += 1
    while number:
        number, letter = divmod(number - 1, 26)
        name = chr(ord("A") + letter) + name
    return name


def _names_answer(name: str, request_id: str) -> bool:
    """Could ``name`` be that of one of the answers ("A/0", "A/1", …) to ``request_id``?"""
    return name.startswith(f"{request_id}/") and name[len(request_id) + 1 :].isdecimal()


def _is_text(value: Any) -> bool:
    """A string without lone surrogates: one that can be hashed, and written to a file."""
    try:
        return isinstance(value, str) and value.encode() is not None
    except UnicodeEncodeError:
        return False


def _listed(prompt: Any) -> list:
    """A prompt's token ids, or several prompts, as a list. Raises PagedlabError for what is neither."""
    try:
        if isinstance(prompt, (bytes, dict, set)):
            raise TypeError
        return list(prompt)
    except TypeError:
        raise PagedlabError(
            f"A prompt is text or a list of token ids, and several are a list of such; not {type(prompt).__name__}."
        ) from None


def _config(knobs: dict[str, Any]) -> EngineConfig:
    allowed = [field.name for field in dataclasses.fields(EngineConfig)]
    unknown = [name for name in knobs if name not in allowed]
    if unknown:
        raise PagedlabError(f"Unknown knob {', '.join(unknown)}. Knobs are: {', '.join(allowed)}.")
    return EngineConfig(**knobs)


def _choose_device(device: str | None) -> str:
    if device is None:
        return "cuda" if torch.cuda.is_available() else "cpu"
    return str(checked_device(device))


def _choose_dtype(dtype: torch.dtype | str | None, device: str) -> torch.dtype:
    if dtype is None:
        if not device.startswith("cuda"):
            return torch.float32
        return torch.bfloat16 if torch.cuda.get_device_capability(device) >= (8, 0) else torch.float16
    names = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
    chosen = names.get(dtype) if isinstance(dtype, str) else dtype
    if chosen not in names.values():
        raise PagedlabError(f"dtype is {dtype!r}; allowed are {', '.join(names)}.")
    return chosen


def _progress(total: int, show: bool) -> Any:
    from tqdm.auto import tqdm

    return tqdm(total=total, unit="request", desc="generate", disable=not show)
