"""Is it fast?  What the kernels take, beside a copy of memory, beside each other and beside what others use."""

from __future__ import annotations

import time

import torch
import torch.nn.functional as F

from pagedlab.bench.gpu.others import OTHERS
from pagedlab.bench.gpu.report import Report
from pagedlab.bench.gpu.setting import Setting
from pagedlab.bench.gpu.shapes import speed
from pagedlab.kernels.launch import processors
from pagedlab.kernels.run import decode, prefill
from pagedlab.kernels.rungs import RUNGS
from pagedlab.kernels.tuning import Tuning, decode_tuning, splits_for

RESERVE_FOR_OTHERS = 25


def copy(report: Report, s: Setting) -> None:
    """The yardstick: a device-to-device copy."""
    size = min(s.copy_bytes, s.free_bytes() // 4)
    source = torch.zeros(size, dtype=torch.uint8, device=s.device)
    target = torch.empty_like(source)
    seconds = s.time(lambda: target.copy_(source))
    s.copy_bandwidth = 2 * size / seconds
    report.row(
        "device-to-device copy",
        f"{s.copy_bandwidth / 1e9:.0f} GB/s (read + written)",
        bytes_per_second=s.copy_bandwidth,
    )


def decode_grid(report: Report, s: Setting) -> None:
    """Decode over batch x context, as the engine would call it."""
    for batch in s.batches:
        for context in s.contexts:
            if report.left < 60:
                report.row("left out", "time")
                return
            if not s.fits(batch, context):
                report.row(f"{batch} x {context}", "does not fit into this GPU's memory")
                continue
            arguments = s.batch(batch, context)
            figures = s.share(batch, context, s.time(lambda a=arguments: decode(*a, s.scale)))
            tuning = decode_tuning(s.capability, s.dtype, s.head_size)
            parts = splits_for(batch * s.kv_heads, arguments[2].shape[1] * 16, tuning.tile, processors(s.device))
            mark = "   <- target: 85 % on an H200" if (batch, context) == s.target else ""
            report.row(f"{batch} x {context}", f"{speed(figures)}  {parts} part(s){mark}", parts=parts, **figures)


def price_of_paging(report: Report, s: Setting) -> None:
    """Our kernel with a table against our kernel that computes addresses, over the same bytes and scattered ones."""
    for batch, context in (s.target, (16, 4096)):
        if not s.fits(batch, context):
            continue
        neighbours, scattered = s.batch(batch, context, scattered=False), s.batch(batch, context)
        contiguous = s.time(lambda a=neighbours: decode(*a, s.scale, splits=1, paged=False))
        paged = s.time(lambda a=neighbours: decode(*a, s.scale, splits=1))
        far = s.time(lambda a=scattered: decode(*a, s.scale, splits=1))
        report.row(
            f"{batch} x {context}",
            f"table {paged / contiguous - 1:+.1%}, table and scattered blocks {far / contiguous - 1:+.1%}  "
            "(within 5 % is the aim)",
            contiguous_seconds=contiguous, paged_seconds=paged, scattered_seconds=far,
        )  # fmt: skip


def rungs(report: Report, s: Setting) -> None:
    """What each change to the plain kernel brought, beside what was expected of it."""
    for batch, context in (s.target, s.long):
        if not s.fits(batch, context):
            continue
        arguments = s.batch(batch, context)
        before = None
        for rung in RUNGS:
            seconds = s.time(lambda r=rung, a=arguments: r.run(*a, s.scale))
            figures = s.share(batch, context, seconds)
            gain = "" if before is None else f"  {before / seconds:5.2f} x the rung before"
            report.row(f"{batch} x {context}: {rung.name}", speed(figures) + gain, expected=rung.expected, **figures)
            before = seconds


def split_or_not(report: Report, s: Setting) -> None:
    """One pass against 2 to 32 parts, and what the table chooses."""
    tuning = decode_tuning(s.capability, s.dtype, s.head_size)
    for batch, context in (s.long, (4, 8192), (16, 4096), s.target):
        if not s.fits(batch, context):
            continue
        arguments = s.batch(batch, context)
        times = {p: s.time(lambda p=p, a=arguments: decode(*a, s.scale, splits=p)) for p in (1, 2, 4, 8, 32)}
        chosen = splits_for(batch * s.kv_heads, arguments[2].shape[1] * 16, tuning.tile, processors(s.device))
        text = "  ".join(f"{p}: {seconds * 1e6:.0f} us" for p, seconds in times.items())
        report.row(
            f"{batch} x {context}", f"{text}   (the table chooses {chosen})", chosen=chosen, seconds_by_parts=times
        )


def block_sizes(report: Report, s: Setting) -> None:
    batch, context = s.target
    for block_size in (8, 16, 32, 64, 128):
        if s.fits(batch, context):
            arguments = s.batch(batch, context, block_size=block_size)
            figures = s.share(batch, context, s.time(lambda a=arguments: decode(*a, s.scale)))
            report.row(f"block size {block_size}", speed(figures), block_size=block_size, **figures)


def neighbours_of_the_table(report: Report, s: Setting) -> None:
    """Other tiles, stages and warps at the target: is the table's choice still the best?"""
    batch, context = s.target
    chosen = decode_tuning(s.capability, s.dtype, s.head_size)
    others = [Tuning(tile, warps, stages) for tile in (16, 32, 64) for warps in (4, 8) for stages in (2, 3, 5)]
    arguments = s.batch(batch, context)
    for tuning in dict.fromkeys([chosen, *others]):
        if report.left < 45:
            report.row("left out", "time")
            return
        try:
            figures = s.share(batch, context, s.time(lambda t=tuning: decode(*arguments, s.scale, splits=1, tuning=t)))
        except Exception as error:  # too much shared memory on this GPU, for example
            report.row(str(tuning), f"not possible here: {type(error).__name__}")
            continue
        mark = "   <- the table's" if tuning == chosen else ""
        report.row(f"tile {tuning.tile} warps {tuning.warps} stages {tuning.stages}", speed(figures) + mark, **figures)


def launch_overhead(report: Report, s: Setting) -> None:
    """A step's small kernels are over before the next is launched; a CUDA graph launches them all at once."""
    if s.device.type != "cuda":
        report.row("CUDA graphs", "need a GPU")
        return
    arguments = s.batch(1, 128)
    calls = 32  # as many layers

    def step():
        for _ in range(calls):
            output = decode(*arguments, s.scale)
        return output

    step()
    torch.cuda.synchronize(s.device)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = step()
    graph.replay()
    same = torch.equal(captured, step())
    # The graph reads the same buffers at each replay: a context that has grown is seen, nothing is captured again.
    arguments[3].fill_(100)
    graph.replay()
    same = same and torch.equal(captured, step())
    if not same:
        report.wrong("CUDA graph", "gives other numbers than launches one by one")
    for name, run in (("one by one", step), ("CUDA graph", graph.replay)):
        torch.cuda.synchronize(s.device)
        start = time.perf_counter()
        for _ in range(20):
            run()
        torch.cuda.synchronize(s.device)
        seconds = (time.perf_counter() - start) / 20 / calls
        report.row(f"1 x 128, {name}", f"{seconds * 1e6:.1f} us a layer", seconds=seconds)


def _torch_prefill(s: Setting, context: int):
    heads = (s.query_heads, s.kv_heads, s.kv_heads)
    q, k, v = (torch.randn(1, h, context, s.head_size, device=s.device).to(s.dtype) for h in heads)
    return lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)


def prefill_speed(report: Report, s: Setting) -> None:
    """A whole prompt, and a chunk behind a cached prefix, beside torch's causal attention over contiguous memory."""
    for queries, context in ((s.target[1], s.target[1]), (s.target[1] // 4, s.target[1])):
        _, layer, tables, lengths, _ = s.batch(1, context)
        query = torch.randn(queries, s.query_heads, s.head_size, device=s.device).to(s.dtype)
        starts = torch.tensor([0, queries], dtype=torch.int32, device=s.device)
        seconds = s.time(lambda q=query, a=(layer, tables, lengths, starts): prefill(q, *a, s.scale))
        pairs = queries * (context - queries) + queries * (queries + 1) // 2
        flops = 4 * pairs * s.head_size * s.query_heads / seconds
        text = f"{seconds * 1e6:10.1f} us  {flops / 1e12:6.1f} TFLOP/s"
        figures = {"queries": queries, "context": context, "seconds": seconds, "flops": flops}
        if queries == context:
            other = s.time(_torch_prefill(s, context))
            text += f"   (torch, contiguous: {other * 1e6:.1f} us)"
            figures["torch_seconds"] = other
        report.row(f"{queries} queries of {context}", text, **figures)


def others(report: Report, s: Setting) -> None:
    """What practitioners use, at the target, where it can be imported."""
    batch, context = s.target
    if not s.fits(batch, context):
        report.row("left out", "the target does not fit into this GPU's memory")
        return
    arguments = s.batch(batch, context)
    figures = s.share(batch, context, s.time(lambda: decode(*arguments, s.scale)))
    report.row("pagedlab", speed(figures), **figures)
    expected = decode(*arguments, s.scale).float()
    for name, prepare in OTHERS:
        if report.left < RESERVE_FOR_OTHERS:
            report.row(name, "left out: time")
            continue
        try:
            call = prepare(s, *arguments)
            error = float((call().float().reshape(expected.shape) - expected).abs().max())
            figures = s.share(batch, context, s.time(call))
        except Exception as problem:  # not installed, another version, not for this GPU
            report.row(name, f"not here: {type(problem).__name__}: {(str(problem).splitlines() or [''])[0][:80]}")
            continue
        report.row(name, f"{speed(figures)}  (differs by {error:.1e})", **figures)
