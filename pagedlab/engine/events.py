"""What the engine tells the recorder: everything that happens around the replaceable parts."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pagedlab
from pagedlab.engine.config import EngineConfig
from pagedlab.engine.request import Request
from pagedlab.engine.scheduler import SchedulerOutput
from pagedlab.executor.abstract import ScheduledRequest
from pagedlab.model.config import LlamaConfig
from pagedlab.trace import events as ev
from pagedlab.trace.recorder import Recorder, source_of


class EngineEvents:
    """Emits a run's events, or nothing at all where ``recorder`` is None.

    Each event names the part that did the thing (``by``), not this class: a learner's scheduler shows as theirs.
    """

    def __init__(self, recorder: Recorder | None, tokenizer: Any) -> None:
        self.recorder = recorder
        self._piece = tokenizer.piece

    def emit(self, event: type[ev.Event], by: Callable[..., Any], **fields: Any) -> None:
        if self.recorder is not None:
            self.recorder.emit(event(source=source_of(by), **fields))

    @contextmanager
    def held(self, really: bool) -> Iterator[None]:
        """Hold back what happens from here on, if ``really``, until somebody lets it go."""
        if self.recorder is not None and really:
            self.recorder.hold()
        try:
            yield
        finally:
            self.emit_all(self.let_go())

    @property
    def are_held(self) -> bool:
        return self.recorder is not None and self.recorder.is_holding

    def let_go(self) -> list[ev.Event]:
        """What was held back; nothing is any more."""
        return self.recorder.let_go() if self.recorder is not None else []

    def emit_all(self, events: list[ev.Event]) -> None:
        for event in events:
            self.recorder.emit(event)

    def arrived(self, request: Request, by: Callable[..., Any]) -> None:
        if self.recorder is not None:
            self.emit(
                ev.RequestArrived,
                by,
                request_id=request.request_id,
                token_ids=tuple(request.all_token_ids),
                texts=tuple(map(self._piece, request.all_token_ids)),
                max_tokens=request.sampling_params.max_tokens,
            )

    def refused(self, request_id: str, reason: str, max_tokens: int, by: Callable[..., Any]) -> None:
        self.emit(ev.RequestArrived, by, request_id=request_id, token_ids=(), texts=(), max_tokens=max_tokens)
        self.emit(ev.RequestRefused, by, request_id=request_id, reason=reason)

    def scheduled(self, output: SchedulerOutput, by: Callable[..., Any]) -> None:
        """Who was thrown out, then who came in (in scheduling order)."""
        for request in output.preempted:
            self.emit(
                ev.RequestPreempted,
                by,
                request_id=request.request_id,
                how="swap" if request.status == "swapped" else "recompute",
                reason=output.fallbacks.get(request.request_id, ""),
            )
        for request in output.admitted:
            self.emit(
                ev.RequestAdmitted,
                by,
                request_id=request.request_id,
                num_computed_tokens=request.num_computed_tokens,
            )

    def written(self, batch: list[ScheduledRequest], sampled: dict[str, int] | None = None) -> None:
        """``sampled``: tokens that the batch writes and its requests do not hold yet."""
        if self.recorder is None:
            return
        for part in batch:
            source = source_of(part.tables[0].slot_mapping)
            for position in range(part.start, part.end):
                is_known = position < len(part.token_ids)
                token_id = part.token_ids[position] if is_known else sampled[part.request_id]
                for group, table in enumerate(part.tables):
                    block_id, offset = table.locate(position)
                    self.recorder.emit(
                        ev.SlotWritten(
                            request_id=part.request_id,
                            token_id=token_id,
                            text=self._piece(token_id),
                            position=position,
                            block_id=block_id,
                            offset=offset,
                            group=group,
                            source=source,
                        )
                    )

    def sampled(self, request: Request, token_id: int, by: Callable[..., Any]) -> None:
        if self.recorder is not None:
            self.emit(
                ev.TokenSampled,
                by,
                request_id=request.request_id,
                position=request.num_tokens,
                token_id=token_id,
                text=self._piece(token_id),
            )


def trace_header(
    described: dict[str, Any], config: EngineConfig, model: LlamaConfig, **sizes: int
) -> dict[str, Any]:
    """Where and with which settings a run happens; see :class:`pagedlab.trace.Trace` for the keys. ``described``: what
    the executor says of itself. ``sizes``: what followed from the knobs (num_blocks, num_cpu_blocks, max_model_len)."""
    windows = {"windows": [group.window for group in model.layer_groups]} if model.has_groups else {}
    return {
        "schema": ev.SCHEMA_VERSION,
        "pagedlab": pagedlab.__version__,
        **described,
        "config": dataclasses.asdict(config) | sizes | windows,
        "seed": config.seed,
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "live": True,
    }
