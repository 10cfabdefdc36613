"""Where does the time of a decode step go on this machine's WebGPU adapter?  Chapter 11 asks it, and gpu-check."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from pagedlab.executor.abstract import Draw, SamplingMetadata, ScheduledRequest
from pagedlab.kernels.wgsl.timing import Timer
from pagedlab.kv.block_table import BlockTable

if TYPE_CHECKING:
    from pagedlab.engine import LLM
    from pagedlab.executor.webgpu_model import Program
    from pagedlab.kernels.wgsl.gpu import Dispatch

# How a step's parts are grouped; one that is not here is a group of its own. What follows the last layer is the head's.
PARTS = {
    "embed": "embedding",
    **dict.fromkeys(("qkv", "output", "gate_up", "down"), "products"),
    **dict.fromkeys(("write_kv", "attend"), "attention"),
    **dict.fromkeys(("rms_norm", "rope", "gate"), "norm, rope, gate"),
}


@dataclass(frozen=True)
class StepTimes:
    """Seconds of a decode step on the adapter: of each part, and of the whole in one pass.

    ``how``: "timestamps" or "wall clock". The parts' sum is a little more than the whole, since each of them is a pass
    of its own.
    """

    parts: dict[str, float]
    whole: float
    how: str

    def shares(self) -> dict[str, float]:
        """Of the parts' sum, the largest first."""
        total = sum(self.parts.values()) or 1.0
        return {part: s / total for part, s in sorted(self.parts.items(), key=lambda one: -one[1])}


def step_times(llm: LLM, requests: int, context: int) -> StepTimes:
    """Times of a step in which so many requests, of ``context`` tokens each, get a token more.

    ``llm``: an engine on WebGPU that has room for them and serves nobody now. Their last tokens are written into its
    blocks, which may be those of a cached prefix.
    """
    executor = llm.executor
    _put_into_place(executor, requests, context)
    named, timer = list(_named(executor.program, requests)), Timer(executor.gpu)
    return StepTimes(timer.by_part(named), timer.seconds([dispatch for _, dispatch in named]), timer.how)


def _put_into_place(executor, requests: int, context: int) -> None:
    """Run such a step once. Its numbers stay in the buffers, so that it can be run again as often as one likes."""
    each = -(-context // executor.kv_pool.block_size)
    tables = [BlockTable(executor.kv_pool.block_size, range(1 + r * each, 1 + (r + 1) * each)) for r in range(requests)]
    batch = [ScheduledRequest(str(r), [r] * context, context - 1, context, table) for r, table in enumerate(tables)]
    draws = [Draw(row=r, position=context, seed=0) for r in range(requests)]
    executor.collect(executor.submit(batch, SamplingMetadata(draws)))


def _named(program: Program, requests: int) -> Iterator[tuple[str, Dispatch]]:
    for step in chain(program.embed, *program.layers):
        yield PARTS.get(step.part, step.part), step.dispatch(requests)
    for step in program.scores:
        yield "head", step.dispatch(requests)
