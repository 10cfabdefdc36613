"""Is the next step planned while the GPU works?  The same requests one step ahead and step by step, in turns."""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import torch

from pagedlab.bench.gpu.report import Report
from pagedlab.bench.gpu.setting import Setting

if TYPE_CHECKING:
    from pagedlab.engine import LLM, SamplingParams

REQUESTS, PROMPT_TOKENS, ROUNDS = 16, 32, 3


def overlap(report: Report, s: Setting) -> None:
    """The model has SmolLM2's sizes and random weights: its steps are short, so planning is a large part of them."""
    from pagedlab import LLM, SamplingParams  # here, for the other parts need no tokenizer

    blocks = REQUESTS * (-(-(PROMPT_TOKENS + s.new_tokens) // 16) + 1) + 1
    base = LLM("smollm2-random", device=str(s.device), num_gpu_blocks_override=blocks)
    engines = [LLM(base, num_gpu_blocks_override=blocks, async_scheduling=ahead) for ahead in (False, True)]
    prompts = [[(7 * i + 11 * at) % 251 for at in range(PROMPT_TOKENS)] for i in range(REQUESTS)]
    options = SamplingParams(max_tokens=s.new_tokens, temperature=0.0, ignore_eos=True)
    seconds: list[list[float]] = [[], []]
    answers: list[list[list[int]]] = [[], []]
    for turn in range(ROUNDS + 1):  # the first one compiles
        for which, llm in enumerate(engines):
            start = time.perf_counter()
            outputs = llm.generate(prompts, options)
            if turn:
                seconds[which].append(time.perf_counter() - start)
            answers[which] = [output.outputs[0].token_ids for output in outputs]
    if s.device.type == "cuda":
        found = waits_in_a_plan(engines[1], prompts[0], options)
        report.row("waits for the GPU in a step's first half", f"{len(found)} {'; '.join(found)}".strip(), waits=found)
    one_by_one, ahead = (REQUESTS * s.new_tokens / median(of) for of in seconds)
    same = answers[0] == answers[1]
    report.judged(
        same,
        f"{REQUESTS} requests",
        f"{'the same' if same else 'other'} tokens; one step ahead {ahead:.0f} tokens/s, step by step "
        f"{one_by_one:.0f} ({ahead / one_by_one:.2f} x)",
        ahead_tokens_per_second=ahead,
        step_by_step_tokens_per_second=one_by_one,
    )


def waits_in_a_plan(llm: LLM, prompt: list[int], options: SamplingParams) -> list[str]:
    """Where torch saw the host wait for the GPU between a plan and the next one; there should be no such place."""
    llm.add_request(prompt, options)
    llm.step()
    submit, found = llm.executor.submit, []

    def watched(*given: Any) -> Any:
        torch.cuda.set_sync_debug_mode("warn")
        try:
            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                return submit(*given)
        finally:
            torch.cuda.set_sync_debug_mode("default")
            found.extend(f"{Path(one.filename).name}:{one.lineno}" for one in seen)

    llm.executor.submit = watched
    try:
        while llm.has_unfinished_requests():
            llm.step()
    finally:
        llm.executor.submit = submit
    return sorted(set(found))
