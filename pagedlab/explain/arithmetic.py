"""What follows from a log's figures without being in it, and the sums that show it. Nothing here is a guess: a step
that lacks a figure is left out, and one that takes vLLM's default says so."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from pagedlab.explain.findings import MEMORY_TAKEN, POOL_TOO_SMALL, Findings

GIB = 2**30
ROUNDING = 0.005  # GiB: vLLM prints two digits
DEFAULT_BLOCK_SIZE = 16  # tokens; vLLM's on GPUs


@dataclass
class Derived:
    """Figures that follow, by the names of ``--json``, and the sums in words."""

    figures: dict[str, Any] = field(default_factory=dict)
    checks: list[str] = field(default_factory=list)
    block_size_is_default: bool = False
    by_padding: bool = False  # the printed tokens are not blocks times block size, because max_model_len is padded
    by_groups: bool = False  # … because a request takes blocks of several groups

    def get(self, name: str) -> Any:
        """The figure, or None."""
        return self.figures.get(name)

    def add(self, name: str, value: Any, check: str = "") -> None:
        """Keep a figure, and the sum that it comes from."""
        self.figures[name] = value
        if check:
            self.checks.append(check)


def derive(f: Findings) -> Derived:
    """All that follows from ``f``."""
    d = Derived()
    _budget(f, d)
    _block_size(f, d)
    _blocks(f, d)
    _concurrency(f, d)
    _bytes_per_token(f, d)
    _refusal(f, d)
    _use(f, d)
    return d


def _budget(f: Findings, d: Derived) -> None:
    if f.budget_gib is not None and f.total_gib and f.utilization:
        d.checks.append(f"{f.total_gib} x {f.utilization} = {f.total_gib * f.utilization:.2f}")
    elif f.total_gib and f.utilization:
        d.add("budget_gib", round(f.total_gib * f.utilization, 2),
              f"{f.total_gib} x {f.utilization} = {f.total_gib * f.utilization:.2f}")  # fmt: skip
    if f.activation_gib is None and f.peak_gib is not None and f.weights_gib is not None:
        d.add("activation_gib", round(f.peak_gib - f.weights_gib, 2),
              f"{f.peak_gib} - {f.weights_gib} = {f.peak_gib - f.weights_gib:.2f}")  # fmt: skip
    if f.non_torch_gib is None and f.consumed_gib is not None and f.weights_gib is not None:
        d.add("non_torch_gib", round(f.consumed_gib - f.weights_gib, 2),
              f"{f.consumed_gib} - {f.weights_gib} = {f.consumed_gib - f.weights_gib:.2f}")  # fmt: skip
    parts = [f.weights_gib, f.non_torch_gib, f.activation_gib, f.kv_cache_gib]
    if f.budget_gib is None and d.get("budget_gib") is None and None not in parts:
        d.add("budget_gib", round(sum(parts), 2), f"{' + '.join(f'{part:.2f}' for part in parts)} = {sum(parts):.2f}")
    used = f.consumed_gib if f.consumed_gib is not None else _sum(f.weights_gib, f.non_torch_gib)
    budget, activation = _first(f.budget_gib, d.get("budget_gib")), _first(f.activation_gib, d.get("activation_gib"))
    if None not in (budget, used, activation, f.kv_cache_gib) and f.total_gib:
        d.checks.append(f"{budget} - {round(used, 2)} - {activation} = {budget - used - activation:.2f}, "
                        f"and the pool has {f.kv_cache_gib}")  # fmt: skip


def _block_size(f: Findings, d: Derived) -> None:
    counts_blocks = f.kv_cache_tokens or f.num_blocks
    if f.block_size is None and counts_blocks and f.device != "CPU" and not f.has_groups and not two_numbers(f):
        tokens = f.kv_cache_tokens
        if tokens is None or tokens % DEFAULT_BLOCK_SIZE == 0 or _padded_blocks(f, DEFAULT_BLOCK_SIZE):
            d.block_size_is_default = True
            d.add("block_size", DEFAULT_BLOCK_SIZE)


def _blocks(f: Findings, d: Derived) -> None:
    size = _first(f.block_size, d.get("block_size"))
    if f.num_blocks is not None:
        if size and f.kv_cache_tokens is None and f.failure is None:
            d.add("kv_cache_tokens", f.num_blocks * size, f"{f.num_blocks} x {size} = {f.num_blocks * size}")
        elif size and f.kv_cache_tokens == f.num_blocks * size:
            d.checks.append(f"{f.num_blocks} x {size} = {f.kv_cache_tokens}")
        if not f.is_v0:
            d.add("usable_blocks", f.num_blocks - 1)
        return
    if not size or f.kv_cache_tokens is None or f.has_groups or two_numbers(f):
        return
    plain = f.kv_cache_tokens % size == 0
    blocks = _padded_blocks(f, size)
    if blocks and not plain:
        each = math.ceil(f.max_model_len / size)
        d.by_padding = True
        d.add("num_blocks", blocks, f"{blocks} / {each} = {blocks / each:.4f}, {each} blocks of {size} for a "
              f"request of {f.max_model_len}")  # fmt: skip
        d.add("slots", blocks * size, f"{blocks} x {size} = {blocks * size}")
    elif plain and not blocks:  # where both fit, nobody can say
        d.add("num_blocks", f.kv_cache_tokens // size,
              f"{f.kv_cache_tokens} / {size} = {f.kv_cache_tokens // size}")  # fmt: skip


def _padded_blocks(f: Findings, size: int) -> int | None:
    """How many blocks the printed tokens are if vLLM counted whole requests of max_model_len, which is no multiple of
    the block size, and multiplied; None where that cannot be."""
    if not f.max_model_len or f.max_model_len % size == 0 or f.max_concurrency is None:
        return None
    each, many = math.ceil(f.max_model_len / size), f.kv_cache_tokens / f.max_model_len
    blocks = round(many * each)
    fits = int(blocks / each * f.max_model_len) == f.kv_cache_tokens and abs(blocks / each - f.max_concurrency) < 0.006
    return blocks if fits else None


def two_numbers(f: Findings) -> bool:
    """Do the tokens and the concurrency contradict each other by more than padding and rounding explain?"""
    if f.kv_cache_tokens is None or f.max_concurrency is None or not f.max_model_len:
        return False
    size = f.block_size or DEFAULT_BLOCK_SIZE
    plain = f.kv_cache_tokens / f.max_model_len
    least = f.kv_cache_tokens / (math.ceil(f.max_model_len / size) * size)
    return not least - 0.006 <= f.max_concurrency <= plain + 0.006


def _concurrency(f: Findings, d: Derived) -> None:
    tokens = _first(f.kv_cache_tokens, d.get("kv_cache_tokens"))
    if not tokens or not f.max_model_len:
        return
    plain = tokens / f.max_model_len
    if f.max_concurrency is None:
        if not f.has_groups:
            d.add("max_concurrency", round(plain, 2), f"{tokens} / {f.max_model_len} = {plain:.2f}")
    elif two_numbers(f):
        d.by_groups = True
        d.checks.append(f"{tokens} / {f.max_model_len} = {plain:.3f}, not {f.max_concurrency}")
        d.add("true_capacity_tokens", round(f.max_concurrency * f.max_model_len),
              f"{f.max_concurrency} x {f.max_model_len} = {f.max_concurrency * f.max_model_len:.0f}, give or take "
              f"{ROUNDING * f.max_model_len:.0f}")  # fmt: skip
    else:
        d.checks.append(f"{tokens} / {f.max_model_len} = {plain:.4f}")


def _bytes_per_token(f: Findings, d: Derived) -> None:
    """Only where one number of KiB fits the printed digits; the pool is less than one block smaller than the memory."""
    tokens = d.get("slots") or (_first(f.kv_cache_tokens, d.get("kv_cache_tokens")))
    size = _first(f.block_size, d.get("block_size"))
    if not tokens or not size or not f.kv_cache_gib or f.has_groups or d.by_groups or f.num_workers > 1:
        return
    if f.failure and f.failure.kind == POOL_TOO_SMALL:
        return  # the tokens are the smallest worker's, the memory need not be
    least, most = ((f.kv_cache_gib - ROUNDING) * GIB / (tokens + size), (f.kv_cache_gib + ROUNDING) * GIB / tokens)
    kib = math.floor(most / 1024)
    if kib == math.ceil(least / 1024) > 0:
        d.add("bytes_per_token", kib * 1024,
              f"{f.kv_cache_gib} x 2**30 / {tokens} = {f.kv_cache_gib * GIB / tokens:.0f}, {kib} KiB")


def _refusal(f: Findings, d: Derived) -> None:
    if f.failure is None:
        return
    detail, size = f.failure.detail, _first(f.block_size, d.get("block_size"))
    if f.failure.kind == POOL_TOO_SMALL:
        if f.num_blocks and size and f.max_model_len and not f.has_groups:
            d.add("blocks_needed", math.ceil(f.max_model_len / size),
                  f"{f.max_model_len} / {size}, rounded up, is {math.ceil(f.max_model_len / size)}")  # fmt: skip
        usable = d.get("usable_blocks")
        if usable and size and detail.get("estimated_max_model_len") == usable * size:
            d.checks.append(f"{usable} x {size} = {usable * size}")
    if f.failure.kind == MEMORY_TAKEN and f.total_gib and detail["taken_by_others_gib"] is not None:
        d.add("highest_utilization", floor2(detail["free_gib"] / f.total_gib),
              f"{detail['free_gib']} / {f.total_gib} = {detail['free_gib'] / f.total_gib:.4f}, rounded down")
        d.checks.append(f"{f.total_gib} - {detail['free_gib']} = {detail['taken_by_others_gib']}")


def _use(f: Findings, d: Derived) -> None:
    """Blocks in use at each periodic line: the usage is of all blocks but the null block, as the percentages show."""
    if f.profiled_blocks and f.profiled_kv_gib and f.num_blocks and f.failure is None:
        pool = f.num_blocks * f.profiled_kv_gib / f.profiled_blocks
        d.add("pool_gib", round(pool, 3),
              f"{f.num_blocks} of the {f.profiled_blocks} blocks that {f.profiled_kv_gib} GiB hold: {pool:.3f}")
    blocks = _first(f.num_blocks, d.get("num_blocks"))
    if not f.runtime or not f.runtime.usages or not blocks or len(f.runtime.engines) > 1 or f.failure:
        return
    for whole in ((blocks,) if f.is_v0 else (blocks - 1, blocks)):
        counts = [round(percent / 100 * whole) for percent in f.runtime.usages]
        if whole > 0 and all(f"{count / whole * 100:.1f}" == f"{percent:.1f}"
                             for count, percent in zip(counts, f.runtime.usages, strict=True)):  # fmt: skip
            if any(counts) and len(counts) <= 100:
                d.add("blocks_in_use", counts, ", ".join(
                    f"{count} / {whole} = {percent} %"
                    for count, percent in zip(counts, f.runtime.usages, strict=True) if count)[:400])  # fmt: skip
            return


def floor2(number: float) -> float:
    """Two digits, rounded down: a utilization that still fits."""
    return math.floor(number * 100 + 1e-9) / 100


def ceil2(number: float) -> float:
    """Two digits, rounded up."""
    return math.ceil(number * 100 - 1e-9) / 100


def _first(*numbers: Any) -> Any:
    return next((number for number in numbers if number is not None), None)


def _sum(*numbers: float | None) -> float | None:
    return None if None in numbers else sum(numbers)
