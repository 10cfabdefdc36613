"""Is it right?  Every kernel against what its result has to be, on the GPU that is here."""

from __future__ import annotations

import torch

from pagedlab.attention import KVPool, paged_attention
from pagedlab.bench.gpu.report import Report
from pagedlab.bench.gpu.setting import Setting
from pagedlab.kernels.move_blocks import copy_blocks, gather_blocks, scatter_blocks
from pagedlab.kernels.run import decode, prefill
from pagedlab.kernels.rungs import RUNGS
from pagedlab.kernels.watch import new_log

TOLERANCE = {torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}


def correctness(report: Report, s: Setting) -> None:
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
        report.judged(
            worst <= 1,
            f"{name}: {what}",
            f"largest error {largest:.1e} ({worst:.2f} of the allowed)",
            error=largest,
        )

    ones = [1] * len(contexts)
    check("decode", lambda *a: decode(*a, **options, splits=1), ones)
    check("split", lambda *a: decode(*a, **options, splits=4), ones)
    check("prefill", lambda *a: prefill(*a, **options), chunk)


def moving(report: Report, s: Setting) -> None:
    """Copy, gather and scatter of blocks against torch; the ladder's rungs and the watched kernel against the plain
    one.
    """
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
    report.judged(right, "copy, gather, scatter blocks", "equal to torch's" if right else "differ from torch's")

    batch, context = min(s.target[0], 8), min(s.target[1], 1024)
    arguments = s.batch(batch, context)
    expected = paged_attention(*arguments, backend="reference").float()
    for rung in RUNGS:
        error = float((rung.run(*arguments, s.scale).float() - expected).abs().max())
        report.judged(error < 3e-2, f"rung: {rung.name}", f"largest error {error:.1e}", error=error)
    for splits in (1, 4):
        log = new_log(batch, s.kv_heads, splits, arguments[2].shape[1], s.device)
        watched = decode(*arguments, s.scale, splits=splits, watch=log)
        same = torch.equal(watched, decode(*arguments, s.scale, splits=splits))
        report.judged(same, f"watched, {splits} parts", "same numbers" if same else "other numbers")


def large_pool(report: Report, s: Setting) -> None:
    """Addresses past 2**31 elements, in the pool that the measurements use."""
    layer = s.pool()
    elements = layer.key.numel()
    query, _, tables, lengths, starts = s.batch(2, min(s.target[1], 1024))
    last = torch.arange(layer.num_blocks - tables.numel(), layer.num_blocks, device=s.device)
    arguments = (query, layer, last.view_as(tables).int(), lengths, starts)
    error = float((decode(*arguments, s.scale) - paged_attention(*arguments, backend="reference")).abs().max())
    text = f"largest error {error:.1e} at the end of {elements / 2**31:.1f} x 2**31 elements"
    report.judged(error < 3e-2, "decode at the pool's end", text, elements=elements, error=error)
