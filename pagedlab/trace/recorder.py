"""Collects events as they happen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pagedlab.trace.events import BatchReceived, Event, StepEnded


@dataclass
class Trace:
    """A run: the header says where and with which settings it happened, the events say what happened.

    ``header`` keys: ``schema``, ``pagedlab``, ``torch``, ``triton``, ``device``, ``compute_capability``, ``driver``
    (over WebGPU, as the adapter names it), ``dtype``, ``model``, ``engine`` (where it is not ours: "vLLM 0.32.0"),
    ``config`` (the knobs; ``num_blocks`` and ``block_size`` among them), ``seed``, ``date``, ``live`` (false once read
    from a file).
    """

    header: dict[str, Any]
    events: list[Event] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._ends: list[int] = []
        self._scanned = 0

    def step_ends(self) -> list[int]:
        """For each finished step (or batch from a server), how many events had happened when it ended.
        ``replay(trace, n)`` takes such a number."""
        for i in range(self._scanned, len(self.events)):
            if type(self.events[i]) in (StepEnded, BatchReceived):
                self._ends.append(i + 1)
        self._scanned = len(self.events)
        return self._ends

    def truncate(self, num_events: int) -> None:
        """Forget all but the first ``num_events`` events."""
        del self.events[num_events:]
        self._ends, self._scanned = [], 0


class Recorder:
    """Appends events to a :class:`Trace` and tells each subscriber about them."""

    def __init__(self, header: dict[str, Any]) -> None:
        self.trace = Trace(header)
        self._subscribers: list[Callable[[Event], None]] = []
        self._held: list[Event] | None = None

    def emit(self, event: Event) -> None:
        if self._held is not None:
            self._held.append(event)
            return
        self.trace.events.append(event)
        for subscriber in self._subscribers:
            subscriber(event)

    @property
    def is_holding(self) -> bool:
        return self._held is not None

    def hold(self) -> None:
        """Keep events back from now on: they are to be told after others that come later."""
        self._held = []

    def let_go(self) -> list[Event]:
        """What was kept back since :meth:`hold`, not yet told. Nothing is kept back any more."""
        held, self._held = self._held or [], None
        return held

    def subscribe(self, callback: Callable[[Event], None]) -> Callable[[], None]:
        """Call ``callback`` with every event from now on. Returns a function that ends the subscription."""
        self._subscribers.append(callback)
        return lambda: self._subscribers.remove(callback)


def source_of(function: Callable[..., Any]) -> str:
    """``module:qualified.name`` of a function or bound method, for an event's ``source``."""
    function = getattr(function, "__func__", function)
    module = getattr(function, "__module__", None) or type(function).__module__
    return f"{module}:{getattr(function, '__qualname__', type(function).__qualname__)}"
