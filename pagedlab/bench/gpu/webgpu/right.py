"""Is it right?  Every kernel against float64, and the engine's tokens against torch's, on the adapter that is here."""

from __future__ import annotations

import math

import numpy as np

from pagedlab.bench.gpu.report import Report
from pagedlab.bench.gpu.webgpu.cases import CASES, error_of
from pagedlab.bench.gpu.webgpu.setting import WebGPUSetting
from pagedlab.errors import PagedlabError


def kernels(report: Report, s: WebGPUSetting) -> None:
    """Random shapes of each, in both kinds of numbers where the adapter has both. The pool is NaN where nothing was
    written."""
    for make, numbers, seeds in CASES:
        for number in numbers[: 1 + s.gpu.has_f16]:
            seeds = math.ceil(seeds * s.cases)
            name = f"{make.__name__}, {number}"
            try:
                cases = [make(np.random.default_rng(seed), number) for seed in range(seeds)]
                errors = [error_of(s.gpu, case) for case in cases]
            except PagedlabError as error:  # it cannot be compiled here: others may
                report.wrong(name, str(error))
                continue
            right = all(error <= case.tolerance for error, case in zip(errors, cases, strict=True))
            largest = max(errors)
            text = f"largest error {largest:.1e}, allowed {cases[0].tolerance:.0e}"
            if cases[0].tolerance == 0:
                text = "the same numbers" if right else "other numbers"
            report.judged(right, name, f"{seeds} shapes, {text}", error=largest if math.isfinite(largest) else None)


def tokens(report: Report, s: WebGPUSetting) -> None:
    """The engine's greedy tokens, with a prompt that is longer than others, a shared prefix, and a pool so small that a
    request is preempted."""
    from pagedlab.engine import LLM, SamplingParams

    prompts = [[5, 6, 7], list(range(40, 90)), [9] * 33, [*range(40, 80), 3, 4]]
    params = SamplingParams(max_tokens=10, ignore_eos=True)
    knobs = dict(dtype="float32", num_gpu_blocks_override=32, block_size=4, max_model_len=70)
    ours, torchs = (
        [output.outputs[0].token_ids for output in LLM("tiny-random", device=device, **knobs).generate(prompts, params)]
        for device in ("webgpu", "cpu")
    )
    different = sum(a != b for a, b in zip(ours, torchs, strict=True))
    text = f"{different} of {len(prompts)} answers differ" if different else "the same as torch's on the CPU"
    report.judged(not different, f"tokens of {len(prompts)} requests, float32", text)
