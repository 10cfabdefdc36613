"""How long does a decode step take, and why? Bytes against bandwidth, operations against their rate.

A decode step computes one token for each request. It has to read every weight once, whatever the batch, and besides
that the K and V of every token in memory. While that takes longer than the arithmetic, a second request is nearly for
nothing: decode is *memory bound*. Source: the paper, section 1 and 2.2; the "roofline" of Williams, Waterman and
Patterson (2009).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from random import Random

import torch

from pagedlab.engine import LLM, SamplingParams


def step_bytes(weight_bytes: int, bytes_per_token: int, contexts: Sequence[int]) -> int:
    """Bytes that a decode step moves: every weight once; for each request, K and V of the ``contexts`` tokens that it
    reads, and of the one that it writes."""
    return weight_bytes + bytes_per_token * (sum(contexts) + len(contexts))


def tokens_per_second(weight_bytes: int, bytes_per_token: int, contexts: Sequence[int], bandwidth: float) -> float:
    """What memory alone would allow, at ``bandwidth`` bytes a second: one token for each request and step."""
    return len(contexts) * bandwidth / step_bytes(weight_bytes, bytes_per_token, contexts)


def read_bandwidth(device: torch.device | str = "cpu", num_bytes: int = 256 << 20, rounds: int = 5) -> float:
    """Bytes a second at which this machine reads a matrix that is far larger than its caches, as decode does: times a
    vector. The best of some rounds."""
    rows = num_bytes // 4 // 4096
    matrix, vector = torch.ones(rows, 4096, device=device), torch.ones(4096, device=device)
    return matrix.nbytes / min(_seconds(lambda: torch.mv(matrix, vector), device) for _ in range(rounds + 1))


def operations_per_second(device: torch.device | str = "cpu", size: int = 1024, rounds: int = 5) -> float:
    """Floating-point operations a second of a large matrix product in float32 (an addition and a multiplication are
    two). The best of some rounds."""
    matrix = torch.ones(size, size, device=device)
    return 2 * size**3 / min(_seconds(lambda: matrix @ matrix, device) for _ in range(rounds + 1))


def decode_seconds(llm: LLM, batch: int, *, context: int = 16, steps: int = 5) -> float:
    """Seconds of a decode step of ``batch`` requests with about ``context`` tokens each, on the weights of ``llm``: the
    quickest of some, since other programs only add."""
    size = llm.config.block_size
    blocks = 1 + batch * -(-(context + steps + 2) // size)
    engine = LLM(llm, block_size=size, num_gpu_blocks_override=blocks, max_num_seqs=batch, enable_prefix_caching=False)
    tokens = Random(batch)
    for _ in range(batch):
        prompt = [tokens.randrange(llm.executor.model_config.vocab_size) for _ in range(context)]
        engine.add_request(prompt, SamplingParams(max_tokens=steps + 2, ignore_eos=True))
    while any(request.num_computed_tokens < context for request in engine.requests.values()):
        engine.step()  # the prefill
    engine.step()  # the first decode step warms up whatever is lazy
    return min(_seconds(engine.step, engine.executor.model.device) for _ in range(steps))


def _seconds(work: Callable[[], object], device: torch.device | str) -> float:
    started = time.perf_counter()
    work()
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - started


def serve(llm: LLM, lengths: Sequence[tuple[int, int]], at_once: int, *, continuous: bool = True) -> dict[str, float]:
    """Decode requests of these (prompt, output) lengths, at most ``at_once`` at a time, on ``llm``'s weights.

    ``continuous``: whoever is finished makes room at once for the next one; else the next group starts when the whole
    group is finished. Returns the steps, how many requests ran in a step (mean), seconds, and tokens a second.
    """
    size, longest = llm.config.block_size, max(prompt + output for prompt, output in lengths)
    blocks = 1 + at_once * -(-longest // size)
    knobs = {"block_size": size, "num_gpu_blocks_override": blocks, "enable_prefix_caching": False}
    engine = LLM(llm, max_num_seqs=at_once, **knobs)
    tokens = Random(0)
    prompts = [[tokens.randrange(llm.executor.model_config.vocab_size) for _ in range(prompt)] for prompt, _ in lengths]
    group = len(lengths) if continuous else at_once
    started = time.perf_counter()
    for first in range(0, len(lengths), group):
        for prompt, (_, output) in list(zip(prompts, lengths, strict=True))[first : first + group]:
            engine.add_request(prompt, SamplingParams(max_tokens=output, ignore_eos=True))
        while engine.has_unfinished_requests():
            engine.step()
    seconds = time.perf_counter() - started
    sampled = sum(output for _, output in lengths)
    return {
        "steps": engine.step_count,
        "running": sampled / engine.step_count,  # each request in a step samples one token
        "seconds": seconds,
        "tokens_per_second": sampled / seconds,
    }
