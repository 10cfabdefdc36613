"""A live run under a lab's cursor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pagedlab.engine.llm import LLM
from pagedlab.errors import PagedlabError, whole
from pagedlab.trace.driver import TraceDriver


@dataclass(frozen=True)
class Remap:
    """An edit: point ``logical_block`` of a running request at another physical block."""

    request_id: str
    logical_block: int
    block_id: int


@dataclass(frozen=True)
class CopyOnWrite:
    """An edit: switch copy-on-write off, or on again (the paper's era)."""

    on: bool


class EngineDriver(TraceDriver):
    """Steps a recording engine. In the past it only moves the cursor; at the end a step runs the model.

    Several labs may share one engine: each has its own cursor. Opens at the engine's last step.
    """

    def __init__(self, llm: LLM) -> None:
        super().__init__(llm.trace)
        self.llm = llm
        self._before_edits: list[tuple[Any, int]] = []  # a snapshot and the step after which it was taken
        self.position = self.num_steps

    @property
    def can_edit(self) -> bool:
        return True

    @property
    def can_step(self) -> bool:
        return super().can_step or self.llm.has_unfinished_requests()

    def step(self) -> bool:
        if not super().can_step:
            self.llm.step()
        return super().step()

    def prompts(self, at: int) -> list[str]:
        """The requests whose prompts a branch at step ``at`` can replace."""
        inputs = self.llm.inputs
        return [kwargs["request_id"] for step, name, _, kwargs in inputs if name == "add_request" and step <= at]

    def branch(
        self,
        at: int,
        *,
        prompt: str | None = None,
        max_tokens: int = 16,
        victim: str | None = None,
        replace: Mapping[str, str | Sequence[int]] | None = None,
        **changes: Any,
    ) -> EngineDriver:
        """A second engine on the same weights, run again to step ``at`` with the same inputs, and then changed.

        ``changes``: other knobs, from the first step on. ``replace``: other prompts, by request id, from the step on in
        which each was queued. ``prompt``: one more request, queued after step ``at``. ``victim``: the running request
        to be preempted next, if memory runs out. Raises PagedlabError for a step that is not recorded, a wrong knob, an
        unknown request, a prompt that can never run, or a victim that does not run.
        """
        at = whole(at, "A step")
        if not 0 <= at <= self.num_steps:
            raise PagedlabError(f"There is no step {at} to branch at; recorded are 0 to {self.num_steps}.")
        twin = self.llm.rerun(at, prompts=replace, **changes)
        if victim is not None:
            running = twin.scheduler.running
            name = str(victim)
            chosen = [r for r in running if name == r.request_id or name.split("/")[0] == r.request_id]
            if not chosen:
                names = ", ".join(r.request_id for r in running) or "none"
                raise PagedlabError(f"Request {victim!r} does not run after step {at}; running are: {names}.")
            running.remove(chosen[0])
            running.append(chosen[0])  # victims are taken from the end
        if prompt is not None:
            from pagedlab.engine.request import SamplingParams

            twin.add_request(prompt, SamplingParams(max_tokens=max_tokens, ignore_eos=True))
        return EngineDriver(twin)

    def apply(self, edit: Remap | CopyOnWrite) -> None:
        """Change the live run, at its end. Raises PagedlabError in the past (branch there first), and for an edit that
        the engine cannot make."""
        if self.position != self.num_steps:
            raise PagedlabError("The past cannot be edited. Branch here first, or go to the last step.")
        before = self.llm.snapshot()
        match edit:
            case Remap():
                self.llm.remap(edit.request_id, edit.logical_block, edit.block_id)
            case CopyOnWrite():
                self.llm.set_copy_on_write(edit.on)
            case _:
                raise PagedlabError(f"{edit!r} is no edit; allowed are Remap(...) and CopyOnWrite(...).")
        self._before_edits.append((before, self.position))

    @property
    def can_undo(self) -> bool:
        return bool(self._before_edits)

    def undo(self) -> None:
        """Take the last edit back, and every step since: the engine is where it was. PagedlabError where there is
        none."""
        if not self._before_edits:
            raise PagedlabError("There is no edit to take back.")
        before, self.position = self._before_edits.pop()
        self.llm.restore(before)
