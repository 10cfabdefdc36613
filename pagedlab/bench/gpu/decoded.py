"""The engine decodes on the device of a check, and what happened to memory is kept as a trace."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from pagedlab.bench.gpu.report import Report
from pagedlab.trace.store import save

if TYPE_CHECKING:
    from pagedlab.engine import LLM

PROMPTS = ["The capital of France is", "Memory is cut into blocks because", "Once upon a time", "One, two, three,"]


def decoded(report: Report, llm: LLM, model: str, new_tokens: int, path: Path) -> None:
    """Four requests on ``llm``, which records; ``model``: what its weights are called. Adds a row, writes ``path``."""
    from pagedlab.engine import SamplingParams

    options = [SamplingParams(max_tokens=n, temperature=0.0, ignore_eos=True) for n in (2, new_tokens)]
    llm.generate(PROMPTS, options[0])  # compiles
    start = time.perf_counter()
    outputs = llm.generate(PROMPTS, options[1])
    seconds = time.perf_counter() - start
    tokens = sum(len(output.outputs[0].token_ids) for output in outputs)
    save(llm.trace, path)
    report.row(
        f"{len(PROMPTS)} requests",
        f"{tokens / seconds:.0f} tokens/s; {model}; {path.name}",
        tokens_per_second=tokens / seconds,
        model=model,
    )
