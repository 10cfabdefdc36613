"""A recording of vLLM's scheduler, or a live vLLM, beside our replay of it, for those who want to see every step and
not only the verdict.

The replay is the one that ``pagedlab parity`` does, with our scheduler, manager and pool; here it goes on after a
difference, keeps what both sides did, and tells a recorder about ours."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pagedlab
from pagedlab.errors import PagedlabError, as_path
from pagedlab.kv import BlockPool, BlockTable, KVCacheManager
from pagedlab.kv.block import FreeKVCacheBlockQueue
from pagedlab.kv.observed import ObservedBlockPool, ObservedKVCacheManager
from pagedlab.parity import GOLDEN, in_package
from pagedlab.parity.recorded_run import VLLMRun
from pagedlab.parity.report import first_difference, read_lines
from pagedlab.parity.sched_trace import FIELDS, SchedulerReplay
from pagedlab.trace import TraceDriver, load
from pagedlab.trace import events as ev
from pagedlab.trace.recorder import Recorder, Trace


def golden(name: str) -> Path:
    """The file of a recording that comes with the package. Raises PagedlabError for an unknown name."""
    path = GOLDEN / f"{name}.jsonl.gz"
    if not path.is_file():
        known = ", ".join(file.name.removesuffix(".jsonl.gz") for file in in_package())
        raise PagedlabError(f"There is no recording {name!r} in the package; there are: {known}.")
    return path


@dataclass
class SideBySide:
    """``theirs`` and ``ours``: one dict a step, with the fields that the golden files' README describes.

    ``ours`` is shorter where our side failed (``error`` says how). ``trace``: our side's events.
    """

    header: dict[str, Any]
    theirs: list[dict[str, Any]]
    trace: Trace
    ours: list[dict[str, Any]] = field(default_factory=list)
    error: str = ""

    def different(self, step: int) -> list[str]:
        """The fields in which step ``step`` (from 0) is not the same on both sides; all where we have no such step."""
        if step >= len(self.ours):
            return list(FIELDS)
        theirs, ours = self.theirs[step], self.ours[step]
        return [name for name in FIELDS if first_difference("", theirs, {name: ours[name]})]

    @property
    def different_steps(self) -> list[int]:
        """The steps with at least one difference, from 0 on."""
        return [step for step in range(len(self.theirs)) if self.different(step)]


class LiveSideBySide(SideBySide):
    """A vLLM under a driver (``pagedlab.watch.of``) and our side, which does each of its steps after it. Our scheduler,
    manager and pool decide; the tokens are those of vLLM's model. Read ``pagedlab.parity.recorded_run`` for what is
    refused.
    """

    def __init__(
        self, driver: TraceDriver, block_pool: Callable[..., Any], kv_cache_manager: Callable[..., Any]
    ) -> None:
        self.driver, self._run = driver, VLLMRun(driver.trace, "This vLLM's run")
        rows = list(self._run.read_on())
        self._replay = WatchedReplay(self._run.header, "This vLLM's run", block_pool, kv_cache_manager, self._run)
        self._num_checked = len(self._run.header["requests"])
        super().__init__(self._run.header, [], self._replay.trace)
        for row in rows:
            self._take(row)

    @property
    def can_step(self) -> bool:
        """Has vLLM anything left to do? (The driver's cursor may be in the past: another lab's too, perhaps.)"""
        unfinished = getattr(self.driver, "has_unfinished_requests", None)
        return self.grown or (unfinished is not None and unfinished())

    @property
    def grown(self) -> bool:
        """Has vLLM made a step that was not read yet?"""
        return self.driver.num_steps > self._run.num_steps

    def step(self) -> None:
        """Let vLLM make a step, and ours the same."""
        if not self.grown:
            self.driver.seek(self.driver.num_steps)
            self.driver.step()
        self.read_on()

    def read_on(self) -> None:
        """Do what vLLM has done since. Where our side cannot follow, ``error`` says why, and vLLM goes on alone."""
        while self.grown:  # again after an error: the steps behind it are vLLM's all the same
            try:
                for row in self._run.read_on():
                    self._take(row)
            except Exception as error:
                self._failed(error)

    def _take(self, row: dict[str, Any]) -> None:
        self.theirs.append(row)
        try:
            for item in self.header["requests"][self._num_checked :]:
                self._num_checked += 1
                self._replay.check_request(item)
            if not self.error:
                self.ours.append(self._replay.step())
        except Exception as error:  # a changed part may do anything
            self._failed(error)

    def _failed(self, error: Exception) -> None:
        what = str(error) if isinstance(error, PagedlabError) else f"{type(error).__name__}: {error}"
        self.error = self.error or what


def side_by_side(
    path: Path | TraceDriver,
    *,
    block_pool: Callable[..., Any] = BlockPool,
    kv_cache_manager: Callable[..., Any] = KVCacheManager,
) -> SideBySide:
    """Replay a recording of vLLM's ``Scheduler`` to its end, or a run of the whole vLLM (``pagedlab.watch``), of which
    the tokens that its model chose are taken over: a recorded one to its end, or a live one (its driver) as it goes.
    ``block_pool`` and ``kv_cache_manager``: other parts for our side, made as ``LLM`` makes them. Raises PagedlabError
    for a file that is neither, and for a run that our side cannot repeat."""
    if isinstance(path, TraceDriver):
        return LiveSideBySide(path, block_pool, kv_cache_manager)
    header, *theirs = read_lines(as_path(path))
    run = None
    if "schema" in header:  # a trace
        run = VLLMRun(load(path), str(path))
        header, theirs = run.header, list(run.read_on())
    elif not str(header.get("engine")).endswith("V1 Scheduler"):
        raise PagedlabError(f"{path} is no recording of vLLM's V1 Scheduler: its engine is {header.get('engine')!r}.")
    replay = WatchedReplay(header, f"{path}, line 1", block_pool, kv_cache_manager, run)
    both = SideBySide(header, theirs, replay.trace)
    for _ in theirs:
        try:
            both.ours.append(replay.step())
        except Exception as error:  # a changed part may do anything
            both.error = f"{type(error).__name__}: {error}"
            break
    return both


class WatchedReplay(SchedulerReplay):
    """The replay with a recorder, and with parts of your choice."""

    def __init__(
        self,
        header: dict[str, Any],
        where: str,
        block_pool: Callable[..., Any] = BlockPool,
        kv_cache_manager: Callable[..., Any] = KVCacheManager,
        run: VLLMRun | None = None,
    ) -> None:
        """``run``: of the whole vLLM, which tells the tokens and what ended an answer."""
        super().__init__(header, where, run and run.next_token)
        self._run = run
        size, caching = header["block_size"], header["enable_caching"]
        recorder = Recorder(_trace_header(header))
        self.trace = recorder.trace
        pool = block_pool(header["num_blocks"], caching)
        if run and run.first_free:
            pool.free_block_queue = FreeKVCacheBlockQueue([pool.blocks[i] for i in run.first_free])
        self.pool = ObservedBlockPool(pool, size, recorder)
        manager = kv_cache_manager(self.pool, size, header["max_model_len"], caching)
        self.manager = ObservedKVCacheManager(manager, self.pool, recorder)
        self.scheduler.kv_cache_manager = self.manager
        self.scheduler = ObservedScheduler(self.scheduler, self.manager, size, recorder)

    def step(self) -> dict[str, Any]:
        if self._run and self.num_steps in self._run.resets:
            self.pool.reset_prefix_cache()
        return super().step()

    def is_stop(self, request: Any) -> bool:
        return self._run is not None and self._run.is_stop(request)


class ObservedScheduler:
    """A scheduler without an engine around it, that tells ``recorder`` what the engine would tell: who came, who runs,
    what was written and sampled."""

    def __init__(self, scheduler: Any, manager: Any, block_size: int, recorder: Recorder) -> None:
        from pagedlab.engine.events import EngineEvents

        self._scheduler = scheduler
        self._manager = manager
        self._block_size = block_size
        self._events = EngineEvents(recorder, _Numbers)
        self._num_steps = 0

    @property
    def running(self) -> list[Any]:
        return self._scheduler.running

    @property
    def waiting(self) -> Any:
        return self._scheduler.waiting

    def add_request(self, request: Any) -> None:
        self._scheduler.add_request(request)
        self._events.arrived(request, self._scheduler.add_request)
        self._events.emit(ev.RequestQueued, self._scheduler.add_request, request_id=request.request_id)

    def schedule(self) -> Any:
        self._num_steps += 1
        self._events.emit(ev.StepStarted, self._scheduler.schedule, step=self._num_steps)
        output = self._scheduler.schedule()
        self._events.scheduled(output, self._scheduler.schedule)
        return output

    def update_from_output(self, output: Any, sampled: dict[str, int], is_stop: Callable[..., bool]) -> list[Any]:
        from pagedlab.executor import ScheduledRequest

        requests = {request.request_id: request for request in self._scheduler.running}
        batch = []
        for request_id, count in output.num_scheduled_tokens.items():
            request, table = requests[request_id], BlockTable(self._block_size, self._manager.get_block_ids(request_id))
            start = request.num_computed_tokens
            batch.append(ScheduledRequest(request_id, request.all_token_ids, start, start + count, table))
        self._events.written(batch)
        by = self._scheduler.update_from_output
        for request_id, token in sampled.items():
            self._events.sampled(requests[request_id], token, by)
        finished = by(output, sampled, is_stop)
        for request in finished:
            self._events.emit(ev.RequestFinished, by, request_id=request.request_id, reason=request.finish_reason)
        self._events.emit(
            ev.StepEnded,
            by,
            step=self._num_steps,
            num_tokens=sum(output.num_scheduled_tokens.values()),
            seconds=0.0,
            device="no model",
        )
        return finished


class _Numbers:
    """In place of a tokenizer: the recording's tokens stand for no text, so each is shown as its number."""

    @staticmethod
    def piece(token_id: int) -> str:
        return str(token_id)


def _trace_header(header: dict[str, Any]) -> dict[str, Any]:
    """Of our side's trace: a run on this machine's CPU, without a model."""
    knobs = ("num_blocks", "block_size", "max_num_seqs", "max_num_batched_tokens", "max_model_len")
    return {
        "schema": ev.SCHEMA_VERSION,
        "pagedlab": pagedlab.__version__,
        "torch": None,
        "triton": None,
        "device": "CPU, no model",
        "compute_capability": None,
        "dtype": None,
        "model": None,
        "config": {name: header[name] for name in knobs} | {"enable_prefix_caching": header["enable_caching"]},
        "seed": header.get("seed"),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "live": True,
    }
