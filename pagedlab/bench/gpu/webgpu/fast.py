"""Is it fast?  What decode attention takes beside a copy of memory, and where the time of a token goes."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np

from pagedlab.bench.gpu.decoded import PROMPTS
from pagedlab.bench.gpu.report import Report
from pagedlab.bench.gpu.shapes import speed
from pagedlab.bench.gpu.webgpu.setting import LANES, WebGPUSetting
from pagedlab.bench.gpu.webgpu.step import step_times

ENOUGH = 0.02  # seconds: a copy that takes so long can be timed well
PIECE = 1 << 14  # bytes that one workgroup of the copy kernel moves


def copy(report: Report, s: WebGPUSetting) -> None:
    """The yardstick: the faster of the driver's copy of a buffer and of a kernel that copies blocks."""
    most = min(s.copy_bytes, s.gpu.largest) // PIECE * PIECE
    for name, seconds_of in (("buffer to buffer, wall clock", _driver), (f"kernel, {s.timer.how}", _kernel)):
        size = min(1 << 20, most)
        while (seconds := seconds_of(s, size)) < ENOUGH / 2 and size < most:
            size = min(4 * size, most)
        bandwidth = 2 * size / seconds
        s.copy_bandwidth = max(bandwidth, s.copy_bandwidth or 0)
        report.row(
            name, f"{bandwidth / 1e9:.1f} GB/s (read + written), {size / (1 << 20):.0f} MiB", size=size,
            bytes_per_second=bandwidth,
        )  # fmt: skip


def _between(s: WebGPUSetting, size: int, seconds_of: Callable) -> float:
    """What `seconds_of` measures between two buffers, which are given back at once."""
    pair = [s.gpu.buffer(size, "A copy") for _ in range(2)]
    try:
        return seconds_of(*pair)
    finally:
        for buffer in pair:
            buffer.destroy()


def _driver(s: WebGPUSetting, size: int) -> float:
    return _between(s, size, lambda a, b: s.timer.wall_clock(lambda e: e.copy_buffer_to_buffer(a, 0, b, 0, size)))


def _kernel(s: WebGPUSetting, size: int) -> float:
    kernel = s.gpu.kernel("move_blocks", BLOCK=PIECE // 4, LANES=LANES)
    ids = s.gpu.upload(np.arange(size // PIECE, dtype=np.uint32), "Block ids")
    groups = (size // PIECE,)
    return _between(s, size, lambda a, b: s.timer.seconds([(kernel.pipeline, kernel.bind(a, ids, ids, b), groups)]))


def decode_grid(report: Report, s: WebGPUSetting) -> None:
    """Decode attention over batch x context, one layer."""
    a_token = None
    for batch in s.batches:
        for context in s.contexts:
            name = f"{batch} x {context}"
            if report.left < 60:
                report.row("left out", "time")
                return
            if not s.fits(batch, context):
                report.row(name, "left out, as are longer ones: its K and V do not fit into a buffer here")
                break
            if a_token and a_token * batch * context > s.most_seconds:
                about = f"about {a_token * batch * context:.1f} s at the speed of the shape before"
                report.row(name, f"left out, as are longer ones: {about}")
                break
            seconds = s.timer.seconds([s.decode(batch, context)])
            a_token = seconds / (batch * context)
            figures = s.share(batch, context, seconds)
            report.row(name, speed(figures), how=s.timer.how, **figures)


def token(report: Report, s: WebGPUSetting) -> None:
    """A decode step of the engine's model, by its parts."""
    model, weights = s.llm.executor.model_config.name, s.llm.executor.model.num_bytes
    report.row("model", f"{model}, {s.number}, {weights / 1e6:.1f} MB; by {s.timer.how}", model=model, how=s.timer.how)
    for requests, context in s.steps:
        times = step_times(s.llm, requests, context)
        name = f"{requests} x {context}"
        for part, share in times.shares().items():
            seconds = times.parts[part]
            report.row(f"{name}: {part}", f"{seconds * 1e6:10.1f} us  {share:6.1%}", seconds=seconds)
        bandwidth = weights / times.whole
        of_copy = bandwidth / s.copy_bandwidth if s.copy_bandwidth else None
        text = "" if of_copy is None else f"; reading its weights alone is {of_copy:.1%} of copy"
        report.row(f"{name}: the whole step", f"{times.whole * 1e6:10.1f} us in one pass{text}", seconds=times.whole,
                   weights_of_copy=of_copy)  # fmt: skip


def python(report: Report, s: WebGPUSetting) -> None:
    """Of a step of the engine: what is Python's and the driver's, and what is waiting for the adapter."""
    from pagedlab.engine import LLM, SamplingParams

    llm = LLM(s.llm, num_gpu_blocks_override=64)
    for prompt in PROMPTS:
        llm.add_request(prompt, SamplingParams(max_tokens=s.new_tokens, temperature=0.0, ignore_eos=True))
    llm.step()  # the prompts
    before, steps = len(llm.executor.spent["submit"]), []
    while llm.has_unfinished_requests():
        start = time.perf_counter()
        llm.step()
        steps.append(time.perf_counter() - start)
    spent = [llm.executor.spent[name][before:] for name in ("submit", "collect")]
    each = [(whole - a - b, a, b) for whole, a, b in zip(steps, *spent, strict=True)]
    engine, submit, collect = (statistics.median(times) for times in zip(*each, strict=True))
    report.row(
        f"a step of {len(PROMPTS)} requests",
        f"{(engine + submit + collect) * 1e3:.2f} ms: the engine {engine * 1e3:.2f}, numbers and encoding "
        f"{submit * 1e3:.2f}, waiting for the adapter {collect * 1e3:.2f}",
        engine_seconds=engine, submit_seconds=submit, collect_seconds=collect, steps=len(steps),
    )  # fmt: skip
