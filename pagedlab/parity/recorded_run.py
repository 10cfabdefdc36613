"""A run of the real vLLM (``pagedlab.watch``), as the scheduler's recordings tell of one: a header with the requests,
and for each step what was decided. So our scheduler, manager and pool can be stepped beside it. The run may be a
recording, or go on while it is read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pagedlab.errors import PagedlabError
from pagedlab.trace import MemoryState, Trace
from pagedlab.trace import events as ev

# With the first of these a step's schedule is over, and what the model's output changes begins.
OUTPUT = (ev.SlotWritten, ev.TokenSampled, ev.RequestFinished, ev.StepEnded)
KNOBS = ("num_blocks", "block_size", "max_num_seqs", "max_num_batched_tokens", "max_model_len")


class VLLMRun:
    """``header``: as a scheduler's recording has it; its "requests" grow with the run. ``first_free``: the free queue
    as it was found, where the watch began on a vLLM that had worked before; ``resets``: the steps before which the
    prefix cache was dropped; ``num_steps``: how many were read. ``where`` names the run in errors.

    Raises PagedlabError, now and in ``read_on``, for what our scheduler cannot repeat: an asynchronous run, one that
    was found with requests or cached blocks, a request that was called off, or a run of another engine.
    """

    def __init__(self, trace: Trace, where: str) -> None:
        h, config = trace.header, trace.header["config"]
        if not str(h.get("engine")).startswith("vLLM "):
            raise PagedlabError(f"{where} is no recorded run of vLLM; its engine is {h.get('engine')!r}.")
        if h.get("async_scheduling"):
            raise PagedlabError(
                f"{where} was made with asynchronous scheduling, where a step's plan and its tokens are of two steps; "
                "here each step of ours is put beside one of vLLM's. Take a run with async_scheduling=False."
            )
        self.header: dict[str, Any] = {name: config.get(name) for name in KNOBS} | {
            "engine": h["engine"], "enable_caching": config.get("enable_prefix_caching"), "next_token": "recorded",
            "requests": [], "seed": h.get("seed"),
        }  # fmt: skip
        self.trace, self._where = trace, where
        self.first_free: list[int] = []
        self.resets: set[int] = set()
        self._tokens: dict[tuple[str, int], int] = {}
        self._stops: set[tuple[str, int]] = set()
        self._state, self._num_events, self.num_steps = MemoryState.of(config), 0, 0
        self._known: set[str] = set()
        self._step: dict[str, Any] = {}
        self._in_schedule = False

    def next_token(self, request_id: str, position: int) -> int:
        """The token that vLLM's model chose there."""
        return self._tokens[request_id, position]

    def is_stop(self, request: Any) -> bool:
        """Did the last token of our ``request`` end it in vLLM, other than by its max_tokens?"""
        return (request.request_id, request.num_tokens) in self._stops

    def read_on(self) -> Iterator[dict[str, Any]]:
        """For each step that has ended since, the ten fields of a scheduler's recording."""
        events = self.trace.events
        while self._num_events < len(events):
            event = events[self._num_events]
            self._num_events += 1
            if self._in_schedule and isinstance(event, OUTPUT):  # the pool as the schedule left it
                self._in_schedule = False
                tables = {r: list(table) for r, table in self._state.tables.items()}
                self._step |= {"tables": tables, "free": list(self._state.free)}
            self._state.apply(event)
            self._take(event)
            if isinstance(event, ev.StepEnded):
                yield self._ended()

    def _take(self, event: ev.Event) -> None:
        step = self._step
        match event:
            case ev.PoolFound():
                self._check_found(event)
                self.first_free = list(event.free)
            case ev.RequestFound() | ev.BlockFound():
                self._check_found(event)
            case ev.PrefixCacheReset():
                self.resets.add(self.num_steps)
            case ev.RequestArrived():
                came = {"req": event.request_id, "arrive": self.num_steps, "tokens": list(event.token_ids)}
                self.header["requests"].append(came | {"max_tokens": event.max_tokens})
            case ev.StepStarted():
                self._step = {"step": self.num_steps, "scheduled": {}, "new": {}}
                self._step |= {"resumed": [], "preempted": [], "finished": []}
                self._in_schedule = True
            case ev.RequestAdmitted(request_id=name) if name in self._known:
                step["resumed"].append(name)
            case ev.RequestAdmitted(request_id=name):
                self._known.add(name)
                step["new"][name] = event.num_computed_tokens
            case ev.RequestPreempted():
                step["preempted"].append(event.request_id)
            case ev.SlotWritten(request_id=name):
                step["scheduled"][name] = step["scheduled"].get(name, 0) + 1
            case ev.TokenSampled():
                self._tokens[event.request_id, event.position] = event.token_id
            case ev.RequestFinished():
                self._finished(event)

    def _finished(self, event: ev.RequestFinished) -> None:
        name = event.request_id
        if event.reason not in ("length", "stop"):
            raise PagedlabError(
                f"{self._where} cannot be repeated: request {name!r} was called off ({event.reason}), which our side "
                "is not told. Take a run in which every answer comes to its end."
            )
        if event.reason == "stop":
            self._stops.add((name, self._state.requests[name].num_tokens))
        self._step["finished"].append(name)

    def _check_found(self, event: ev.Event) -> None:
        if self.num_steps or self.header["requests"] or not isinstance(event, ev.PoolFound):
            raise PagedlabError(
                f"{self._where} begins in mid-run, with requests or cached blocks; only a run that is watched from its "
                "start can be repeated. Let vLLM finish, call its reset_prefix_cache(), and then watch it anew: "
                "pagedlab.watch.of(llm, anew=True)."
            )

    def _ended(self) -> dict[str, Any]:
        self.num_steps += 1
        step = self._step
        for field in ("resumed", "preempted", "finished"):
            step[field].sort()
        step["tables"] = {name: step["tables"][name] for name in step["scheduled"]}
        return step | {"running": list(self._state.running), "waiting": list(self._state.waiting)}
