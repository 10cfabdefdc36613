"""The parts of `pagedlab gpu-check`: each measures one thing and adds its rows to the report.

Shapes are Llama 3.1 8B's: 32 query heads, 8 KV heads, head size 128, 16-bit numbers, so 4,096 bytes of K and V a token
and layer. Times come from `triton.testing.do_bench` (median; it empties the second-level cache between runs). "GB/s" of
decode counts K and V once, which is what has to be read; "of copy" is that against a device-to-device copy measured in
the same run (bytes read plus bytes written). Everything runs on a device that is handed in, so that the tests can run
the same code, in small, under the interpreter.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

import torch

from pagedlab.attention import KVPool, LayerKV, paged_attention
from pagedlab.kernels.launch import check_device, processors
from pagedlab.kernels.run import decode, prefill
from pagedlab.kernels.tuning import Tuning, decode_tuning, splits_for
from pagedlab.kernels.watch import new_log, spans


@dataclass
class Setting:
    """The device, and the sizes; the defaults are what is measured on a GPU."""

    device: torch.device
    out: Path
    query_heads: int = 32
    kv_heads: int = 8
    head_size: int = 128
    batches: tuple[int, ...] = (1, 4, 16, 64, 256)
    contexts: tuple[int, ...] = (128, 1024, 4096, 32768)
    target: tuple[int, int] = (64, 4096)  # batch x context of the target: 85 % of the copy bandwidth on an H200
    long: tuple[int, int] = (1, 32768)
    head_sizes: tuple[int, ...] = (32, 64, 80, 96, 128, 256)
    copy_bytes: int = 2 << 30
    check_contexts: tuple[int, ...] = (1, 16, 150, 700)  # lengths whose results are compared with the reference
    check_queries: tuple[int, ...] = (1, 16, 33, 300)
    new_tokens: int = 48  # of each request that the engine decodes
    chunk: int = 128  # tokens of a prompt in one step
    dtype: torch.dtype = field(init=False)
    layer: LayerKV | None = None
    copy_bandwidth: float | None = None  # bytes a second

    def __post_init__(self):
        self.capability = check_device(self.device)
        self.dtype = torch.bfloat16 if self.capability is None or self.capability >= 80 else torch.float16
        self.scale = self.head_size**-0.5

    @property
    def bytes_per_token(self) -> int:
        return 2 * self.kv_heads * self.head_size * self.dtype.itemsize

    def time(self, function) -> float:
        """Seconds of one call, the median of some 20 ms of calls."""
        if self.device.type != "cuda":
            start = time.perf_counter()
            function()
            return time.perf_counter() - start
        from triton.testing import do_bench

        return do_bench(function, warmup=5, rep=20, return_mode="median") / 1000

    def free_bytes(self) -> int:
        return torch.cuda.mem_get_info(self.device)[0] if self.device.type == "cuda" else 1 << 28

    def pool(self) -> LayerKV:
        """One layer that is large enough for the largest batch that fits, filled with random numbers; made once."""
        if self.layer is None:
            most = max(self.tokens(batch, context) for batch in self.batches for context in self.contexts)
            most = max(most, self.tokens(8, self.target[1]))
            blocks = min(most, int(0.6 * self.free_bytes()) // self.bytes_per_token) // 16
            pool = KVPool(1, blocks, 16, self.kv_heads, self.head_size, self.dtype, self.device)
            for part in pool.data.view(-1).split(1 << 28):
                part.normal_()
            self.layer = pool.layer(0)
        return self.layer

    def fits(self, batch: int, context: int) -> bool:
        return self.tokens(batch, context) <= self.pool().num_blocks * 16

    @staticmethod
    def tokens(batch: int, context: int) -> int:
        """Slots that a batch takes, in blocks of up to 256 tokens."""
        return batch * -(-context // 256) * 256

    def batch(self, batch: int, context: int, *, block_size: int = 16, scattered: bool = True):
        """Arguments of a decode call: `batch` requests of `context` tokens each, blocks all over the pool."""
        layer = self.pool()
        key, value = (t.flatten(0, 1) for t in (layer.key, layer.value))
        blocks = len(key) // block_size
        shape = (blocks, block_size, self.kv_heads, self.head_size)
        layer = LayerKV(key[: blocks * block_size].view(shape), value[: blocks * block_size].view(shape))
        each = -(-context // block_size)
        ids = torch.randperm(blocks, device=self.device) if scattered else torch.arange(blocks, device=self.device)
        tables = ids[: batch * each].view(batch, each).int()
        lengths = torch.full((batch,), context, dtype=torch.int32, device=self.device)
        starts = torch.arange(batch + 1, dtype=torch.int32, device=self.device)
        query = torch.randn(batch, self.query_heads, self.head_size, device=self.device).to(self.dtype)
        return query, layer, tables, lengths, starts

    def share(self, batch: int, context: int, seconds: float) -> dict:
        """Figures of a decode call: bandwidth, and its share of the copy's."""
        bandwidth = batch * context * self.bytes_per_token / seconds
        share = bandwidth / self.copy_bandwidth if self.copy_bandwidth else None
        return {"batch": batch, "context": context, "seconds": seconds, "bytes_per_second": bandwidth, "of_copy": share}


def speed(figures: dict) -> str:
    share = "" if figures["of_copy"] is None else f"  {figures['of_copy']:6.1%} of copy"
    return f"{figures['seconds'] * 1e6:10.1f} us  {figures['bytes_per_second'] / 1e9:8.1f} GB/s{share}"


# ------------------------------------------------------------------------------------------------------------ right?


def correctness(report, s: Setting) -> None:
    """Every kernel against float64 attention, over head sizes, dtypes, groups, block sizes, windows and soft caps."""
    dtypes = [torch.float32, torch.float16] + ([torch.bfloat16] if s.dtype == torch.bfloat16 else [])
    cases = [(head_size, torch.float16, 4, 16, {}) for head_size in s.head_sizes]
    cases += [(64, dtype, 3, 16, {}) for dtype in dtypes if dtype != torch.float16]
    cases += [(128, s.dtype, group, block, {}) for group, block in ((1, 1), (8, 24), (16, 256))]
    cases += [(64, s.dtype, 2, 16, dict(sliding_window=40)), (64, s.dtype, 2, 16, dict(soft_cap=20.0))]
    for head_size, dtype, group, block_size, options in cases:
        name = f"{str(dtype).removeprefix('torch.')} head {head_size} group {group} block {block_size}"
        if options:
            name += " " + next(iter(options)).replace("_", " ")
        _compare(report, s, name, head_size, dtype, group, block_size, options)


TOLERANCE = {torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}


def _compare(report, s, name, head_size, dtype, group, block_size, options) -> None:
    rng = torch.Generator().manual_seed(head_size + group)
    kv_heads, scale = 2, head_size**-0.5
    contexts, chunk = s.check_contexts, s.check_queries
    each = [-(-c // block_size) for c in contexts]
    pool = KVPool(1, sum(each) + 2, block_size, kv_heads, head_size, dtype, s.device)
    layer = pool.layer(0)
    pool.data.fill_(float("nan"))
    ids = torch.randperm(pool.num_blocks, generator=rng)
    tables = torch.full((len(contexts), max(each) + 1), 2**31 - 1, dtype=torch.int32)
    slots, taken = [], 0
    for r, context in enumerate(contexts):
        tables[r, : each[r]] = ids[taken : taken + each[r]].int()
        taken += each[r]
        position = torch.arange(context)
        slots.append(tables[r].long()[position // block_size] * block_size + position % block_size)
    slots = torch.cat([*slots, torch.tensor([-1])]).to(s.device)
    key, value = (torch.randn(len(slots), kv_heads, head_size, generator=rng).to(dtype).to(s.device) for _ in "kv")
    layer.write(key, value, slots, backend="triton")
    tables = tables.to(s.device)

    def ints(*numbers):
        return torch.tensor(numbers, dtype=torch.int32, device=s.device)

    def check(what, run, queries):
        starts = ints(*[sum(queries[:i]) for i in range(len(queries) + 1)])
        query = torch.randn(sum(queries), kv_heads * group, head_size, generator=rng).to(dtype).to(s.device)
        arguments = (query, layer, tables, ints(*contexts), starts)
        expected = paged_attention(*arguments, scale=scale, backend="reference", **options).double()
        error = (run(*arguments, scale).double() - expected).abs()
        allowed = TOLERANCE[dtype] * (1 + expected.abs())
        worst, largest = float((error / allowed).nan_to_num(nan=float("inf")).max()), float(error.max())
        (report.row if worst <= 1 else report.wrong)(
            f"{name}: {what}",
            f"largest error {largest:.1e} ({worst:.2f} of the allowed)",
            error=largest,
        )

    ones = [1] * len(contexts)
    check("decode", lambda *a: decode(*a, **options, splits=1), ones)
    check("split", lambda *a: decode(*a, **options, splits=4), ones)
    check("prefill", lambda *a: prefill(*a, **options), chunk)


def moving(report, s: Setting) -> None:
    """Copy, gather and scatter of blocks against torch; the ladder's rungs and the watched kernel against the plain
    one.
    """
    from pagedlab.kernels.move_blocks import copy_blocks, gather_blocks, scatter_blocks
    from pagedlab.kernels.rungs import RUNGS

    pool = KVPool(4, 64, 16, 8, 128, s.dtype, s.device)
    pool.data.normal_()
    expected = pool.data.clone()
    expected[:, :, [3, 9]] = expected[:, :, [60, 2]]
    copy_blocks(pool.data, [(60, 3), (2, 9)])
    ids = torch.tensor([5, 40, 7], device=s.device)
    buffer = gather_blocks(pool.data, ids)
    right = torch.equal(pool.data, expected) and torch.equal(buffer, expected[:, :, ids])
    scatter_blocks(pool.data, ids, buffer.flip(2).contiguous())
    right = right and torch.equal(pool.data[:, :, ids], buffer.flip(2))
    (report.row if right else report.wrong)(
        "copy, gather, scatter blocks", "equal to torch's" if right else "differ from torch's"
    )

    batch, context = min(s.target[0], 8), min(s.target[1], 1024)
    arguments = s.batch(batch, context)
    expected = paged_attention(*arguments, backend="reference").float()
    for rung in RUNGS:
        error = float((rung.run(*arguments, s.scale).float() - expected).abs().max())
        (report.row if error < 3e-2 else report.wrong)(f"rung: {rung.name}", f"largest error {error:.1e}", error=error)
    for splits in (1, 4):
        log = new_log(batch, s.kv_heads, splits, arguments[2].shape[1], s.device)
        watched = decode(*arguments, s.scale, splits=splits, watch=log)
        same = torch.equal(watched, decode(*arguments, s.scale, splits=splits))
        (report.row if same else report.wrong)(f"watched, {splits} parts", "same numbers" if same else "other numbers")


def large_pool(report, s: Setting) -> None:
    """Addresses past 2**31 elements, in the pool that the measurements use."""
    layer = s.pool()
    elements = layer.key.numel()
    query, _, tables, lengths, starts = s.batch(2, min(s.target[1], 1024))
    last = torch.arange(layer.num_blocks - tables.numel(), layer.num_blocks, device=s.device)
    arguments = (query, layer, last.view_as(tables).int(), lengths, starts)
    error = float((decode(*arguments, s.scale) - paged_attention(*arguments, backend="reference")).abs().max())
    text = f"largest error {error:.1e} at the end of {elements / 2**31:.1f} x 2**31 elements"
    (report.row if error < 3e-2 else report.wrong)("decode at the pool's end", text, elements=elements, error=error)


# ------------------------------------------------------------------------------------------------------------ fast?


def copy(report, s: Setting) -> None:
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


def decode_grid(report, s: Setting) -> None:
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


def price_of_paging(report, s: Setting) -> None:
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


def rungs(report, s: Setting) -> None:
    """What each change to the plain kernel brought, beside what was expected of it."""
    from pagedlab.kernels.rungs import RUNGS

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


def split_or_not(report, s: Setting) -> None:
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


def block_sizes(report, s: Setting) -> None:
    batch, context = s.target
    for block_size in (8, 16, 32, 64, 128):
        if s.fits(batch, context):
            arguments = s.batch(batch, context, block_size=block_size)
            figures = s.share(batch, context, s.time(lambda a=arguments: decode(*a, s.scale)))
            report.row(f"block size {block_size}", speed(figures), block_size=block_size, **figures)


def neighbours_of_the_table(report, s: Setting) -> None:
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


def launch_overhead(report, s: Setting) -> None:
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
    import torch.nn.functional as F

    heads = (s.query_heads, s.kv_heads, s.kv_heads)
    q, k, v = (torch.randn(1, h, context, s.head_size, device=s.device).to(s.dtype) for h in heads)
    return lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)


def prefill_speed(report, s: Setting) -> None:
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


# ----------------------------------------------------------------------------------------------------------- traces


def kernel_trace(report, s: Setting) -> None:
    """A watched decode of four requests, as `kernel span` events in a trace."""
    from pagedlab.bench.gpu_check import provenance
    from pagedlab.trace.events import SCHEMA_VERSION
    from pagedlab.trace.recorder import Trace
    from pagedlab.trace.store import save

    contexts = [min(c, s.target[1]) for c in (700, 1500, 3000, 4096)]
    query, layer, tables, _, starts = s.batch(4, max(contexts))
    lengths = torch.tensor(contexts, dtype=torch.int32, device=s.device)
    parts = 4
    log = new_log(4, s.kv_heads, parts, tables.shape[1], s.device)
    for _ in range(2):  # the first run compiles
        log.fill_(-1)
        decode(query, layer, tables, lengths, starts, s.scale, splits=parts, watch=log)
    events = spans(log, "pagedlab.kernels.decode_split:paged_decode_split_kernel")
    where = provenance(s.device)
    header = {
        "schema": SCHEMA_VERSION,
        "pagedlab": where["versions"]["pagedlab"],
        "torch": torch.__version__,
        "triton": where["versions"]["triton"],
        "device": where["device"] or "CPU",
        "compute_capability": where.get("compute_capability"),
        "dtype": str(s.dtype).removeprefix("torch."),
        "model": "random K and V in Llama 3.1 8B's shape",
        "config": {"num_blocks": layer.num_blocks, "block_size": layer.block_size},
        "seed": None,
        "date": where["date"],
        "live": True,
    }
    save(Trace(header, events), s.out / "gpu-kernel.jsonl.gz")
    sms = {event.sm for event in events} - {None}
    longest = max((event.end_ns for event in events if event.end_ns is not None), default=0)
    report.row(
        "gpu-kernel.jsonl.gz",
        f"{len(events)} programs on {len(sms)} SMs in {longest / 1000:.1f} us",
        programs=len(events),
    )


def engine(report, s: Setting) -> None:
    """The engine decoding with the Triton kernels, recorded. The model has SmolLM2's sizes and random weights: what it
    says is nonsense, what it costs is not, and nothing has to be fetched. And a long prompt in chunks, whose steps
    nobody waits for, gives the tokens that it gives when each step is waited for.
    """
    from pagedlab import LLM, SamplingParams
    from pagedlab.trace.store import save

    llm = LLM("smollm2-random", device=str(s.device), record=True, num_gpu_blocks_override=64)
    name = llm.model.config.name
    prompts = [
        "The capital of France is",
        "Memory is cut into blocks because",
        "Once upon a time",
        "One, two, three,",
    ]
    options = SamplingParams(max_tokens=s.new_tokens, temperature=0.0, ignore_eos=True)
    llm.generate(prompts, SamplingParams(max_tokens=2, temperature=0.0, ignore_eos=True))  # compiles
    start = time.perf_counter()
    outputs = llm.generate(prompts, options)
    seconds = time.perf_counter() - start
    tokens = sum(len(output.outputs[0].token_ids) for output in outputs)
    save(llm.trace, s.out / "gpu-decode.jsonl.gz")
    report.row(
        "4 requests",
        f"{tokens / seconds:.0f} tokens/s; {name}; gpu-decode.jsonl.gz",
        tokens_per_second=tokens / seconds,
        model=name,
    )

    def in_chunks(wait: bool) -> list[int]:
        chunked = LLM(llm, num_gpu_blocks_override=64, max_num_batched_tokens=s.chunk, enable_prefix_caching=False)
        chunked.add_request([7 * i % 251 for i in range(6 * s.chunk)], options)
        while chunked.has_unfinished_requests():
            (output, *_) = chunked.step() or [None]
            if wait and s.device.type == "cuda":
                torch.cuda.synchronize(s.device)
        return output.outputs[0].token_ids

    same = in_chunks(wait=False) == in_chunks(wait=True)
    (report.row if same else report.wrong)(
        "a prompt in 6 chunks", f"{'the same' if same else 'other'} tokens as with waiting for each", model=name
    )


def others(report, s: Setting) -> None:
    """What practitioners use, at the target, where it can be imported."""
    from pagedlab.bench.gpu_others import OTHERS

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


RESERVE_FOR_OTHERS = 25

PARTS = (
    ("copy", copy),
    ("right?", correctness),
    ("right?, moving", moving),
    ("right?, 2**31", large_pool),
    ("decode", decode_grid),
    ("paging", price_of_paging),
    ("rungs", rungs),
    ("split", split_or_not),
    ("launch", launch_overhead),
    ("kernel trace", kernel_trace),
    ("engine", engine),
    ("block size", block_sizes),
    ("prefill", prefill_speed),
    ("tuning", neighbours_of_the_table),
    ("others", others),
)
