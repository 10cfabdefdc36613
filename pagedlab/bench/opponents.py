"""Who takes turns with our engine in `pagedlab bench engine --against NAME`, on the same weights: one function each."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from pagedlab.bench.workloads import Workload
from pagedlab.engine import LLM

Side = Callable[[list[list[int]], int], list[list[int]]]  # prompts, new tokens for each -> the new tokens of each
Sides = dict[str, Side]


def transformers(
    model: str, llm: LLM, workloads: list[Workload], stack: contextlib.ExitStack
) -> tuple[Sides, dict[str, Any]]:
    """`generate` with a padded batch, and continuous batching (`generate_batch`, paged attention), in this process."""
    from pagedlab.bench.others import Transformers

    theirs = Transformers(llm.executor.model)
    return {"padded": theirs.padded, "continuous": theirs.continuous}, {"transformers": theirs.version}


def vllm(model: str, llm: LLM, workloads: list[Workload], stack: contextlib.ExitStack) -> tuple[Sides, dict[str, Any]]:
    """Eager and compiled, each in a process of its own that ``stack`` ends."""
    from pagedlab.bench import vllm_rounds

    both = vllm_rounds.start(model, workloads, llm.executor.model_config, stack)
    return {kind: one.run for kind, one in both.items()}, {"vllm": {kind: one.about for kind, one in both.items()}}


OPPONENTS = {"transformers": transformers, "vllm": vllm}
