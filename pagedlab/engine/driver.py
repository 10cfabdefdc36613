"""A live run under a lab's cursor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pagedlab.engine.llm import LLM
from pagedlab.errors import PagedlabError
from pagedlab.trace.driver import TraceDriver


@dataclass(frozen=True)
class Remap:
    """An edit: point ``logical_block`` of a running request at another physical block."""

    request_id: str
    logical_block: int
    block_id: int


class EngineDriver(TraceDriver):
    """Steps a recording engine. In the past it only moves the cursor; at the end a step runs the model.

    Several labs may share one engine: each has its own cursor. Opens at the engine's last step.
    """

    def __init__(self, llm: LLM) -> None:
        super().__init__(llm.trace)
        self.llm = llm
        self.position = self.num_steps

    @property
    def can_step(self) -> bool:
        return super().can_step or self.llm.has_unfinished_requests()

    def step(self) -> bool:
        if not super().can_step:
            self.llm.step()
        return super().step()

    def branch(self, at: int, **changes: Any) -> EngineDriver:
        """A second engine on the same weights, run again to step ``at`` with the same inputs; ``changes`` are other
        knobs."""
        if not 0 <= at <= self.num_steps:
            raise PagedlabError(f"There is no step {at} to branch at; recorded are 0 to {self.num_steps}.")
        return EngineDriver(self.llm.rerun(at, **changes))

    def apply(self, edit: Remap) -> None:
        """Change the live run, at its end. Raises PagedlabError in the past (branch there first)."""
        if self.position != self.num_steps:
            raise PagedlabError("The past cannot be edited. Branch here first, or go to the last step.")
        self.llm.remap(edit.request_id, edit.logical_block, edit.block_id)
