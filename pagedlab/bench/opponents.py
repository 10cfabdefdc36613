"""Who takes turns with our engine in `pagedlab bench engine --against NAME`, on the same weights: a record each."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pagedlab.bench import others, vllm_rounds
from pagedlab.bench.workloads import Workload
from pagedlab.engine import LLM

Side = Callable[[list[list[int]], int], list[list[int]]]  # prompts, new tokens for each -> the new tokens of each
Sides = dict[str, Side]


@dataclass(frozen=True)
class Opponent:
    """``check()`` raises PagedlabError where it is not installed, before anything is loaded. ``start(model, our engine,
    workloads, stack)`` gives its sides, and what is to be kept of it; ``stack`` ends it."""

    check: Callable[[], Any]
    start: Callable[[str, LLM, list[Workload], contextlib.ExitStack], tuple[Sides, dict[str, Any]]]


def _transformers(
    model: str, llm: LLM, workloads: list[Workload], stack: contextlib.ExitStack
) -> tuple[Sides, dict[str, Any]]:
    """`generate` with a padded batch, and continuous batching (`generate_batch`, paged attention), in this process."""
    theirs = others.Transformers(llm.executor.model)
    return {"padded": theirs.padded, "continuous": theirs.continuous}, {"transformers": theirs.version}


def _vllm(model: str, llm: LLM, workloads: list[Workload], stack: contextlib.ExitStack) -> tuple[Sides, dict[str, Any]]:
    """Eager and compiled, each in a process of its own."""
    both = vllm_rounds.start(model, workloads, llm.executor.model_config, stack)
    return {kind: one.run for kind, one in both.items()}, {"vllm": {kind: one.about for kind, one in both.items()}}


OPPONENTS = {
    "transformers": Opponent(others.library, _transformers),
    "vllm": Opponent(vllm_rounds.vllm_python, _vllm),
}
