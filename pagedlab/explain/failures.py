"""Why an engine stopped: five kinds of messages that are about memory, in the words of several versions."""

from __future__ import annotations

import re
from typing import Any

from pagedlab.explain import findings as f
from pagedlab.explain.findings import Failure

TO_GIB = {"GiB": 1.0, "GB": 1.0, "MiB": 2**-10, "KiB": 2**-20, "bytes": 2**-30, "": 2**-30}
NUM = r"(-?\d{1,9}(?:\.\d{1,9})?)"
SIZE = rf"{NUM} ?(GiB|MiB|KiB|bytes)"

NO_KV = re.compile(
    r"No available memory for the cache blocks|Cannot auto-fit max_model_len: not enough GPU memory available")
TOKENS_SHORT = re.compile(
    r"max seq len \((\d{1,15})\) is larger than the maximum number of tokens that can be stored in (?:the )?KV cache "
    r"\((\d{1,15})\)")
GIB_SHORT = re.compile(
    rf"at least one request with the models?'s max seq len \((\d{{1,15}})\), \({NUM} Gi?B KV cache is needed, which is "
    rf"larger than the available KV cache memory \({NUM} Gi?B\)"
    r"(?:\. Based on the available memory, the estimated maximum model length is (\d{1,15}))?")
TAKEN = re.compile(
    rf"(?:Free memory on device(?: \S+)?|Available memory on node \d+) \({NUM}/{NUM} GiB\) on startup is less than "
    rf"desired [CG]PU memory utilization \({NUM}, {NUM} GiB\)")
TAKEN_CPU = re.compile(
    rf"Available memory on node \d+ \({NUM}/{NUM} GiB\) on kv cache allocation is less than requested memory for kv "
    rf"\({NUM}(?:/[\d.]+)? GiB\)")
GREW = re.compile(
    r"Error in memory profiling\. Initial (free|used) memory (\d{1,15}(?:\.\d{1,9})?)(?: (GiB))? ?, "
    r"current(?:ly used| free) memory (\d{1,15}(?:\.\d{1,9})?)")
OUT = re.compile(r"OutOfMemoryError:|\b(?:CUDA|HIP|XPU|NPU) out of memory")
TRIED = re.compile(rf"Tried to allocate {SIZE}")
CAPACITY = re.compile(rf"total capacity of {SIZE} of which {SIZE} is free")
CAPACITY_OLD = re.compile(rf"\(GPU \d+; {SIZE} total capacity; {SIZE} already allocated; {SIZE} free")
WARMING_UP = re.compile(r"warming up (?:the )?sampler with (\d{1,9}) dummy requests")
# Stops that are about something else; said in words, never as one of the five.
OTHER = re.compile(
    r"(ValueError: max_num_seqs \(\d+\) exceeds available Mamba cache blocks \(\d+\)[^.]*\."
    r"|EngineCore failed to start\b|Engine core initialization failed\b[^.]*)")


def failure(text: str) -> Failure | None:
    """The failure that ``text`` tells of, if it is one of the five kinds."""
    if found := TOKENS_SHORT.search(text):
        detail: dict[str, Any] = {"max_model_len": int(found[1]), "fits_tokens": int(found[2])}
        return Failure(f.POOL_TOO_SMALL, detail, found[0])
    if found := GIB_SHORT.search(text):
        detail = {"needed_gib": float(found[2]), "available_gib": float(found[3]),
                  "estimated_max_model_len": int(found[4]) if found[4] else None}  # fmt: skip
        return Failure(f.POOL_TOO_SMALL, detail, found[0])
    if found := TAKEN.search(text):
        free, total, wanted = float(found[1]), float(found[2]), float(found[4])
        detail = {"free_gib": free, "wanted_gib": wanted, "taken_by_others_gib": round(total - free, 2)}
        return Failure(f.MEMORY_TAKEN, detail, found[0])
    if found := TAKEN_CPU.search(text):
        detail = {"free_gib": float(found[1]), "wanted_gib": float(found[3]), "taken_by_others_gib": None}
        return Failure(f.MEMORY_TAKEN, detail, found[0])
    if found := GREW.search(text):
        unit = TO_GIB[found[3] or ""]
        detail = {f"initial_{found[1]}_gib": round(float(found[2]) * unit, 2),
                  f"current_{found[1]}_gib": round(float(found[4]) * unit, 2)}  # fmt: skip
        return Failure(f.PROFILING_GREW, detail, found[0])
    if found := NO_KV.search(text):
        return Failure(f.NO_KV_MEMORY, None, found[0])
    return _out_of_memory(text) if OUT.search(text) else None


def _out_of_memory(text: str) -> Failure:
    tried, capacity, old = TRIED.search(text), CAPACITY.search(text), CAPACITY_OLD.search(text)
    warming = WARMING_UP.search(text)
    detail: dict[str, Any] = {
        "tried_gib": _gib(tried[1], tried[2]) if tried else None,
        "total_gib": _gib(capacity[1], capacity[2]) if capacity else _gib(old[1], old[2]) if old else None,
        "free_gib": _gib(capacity[3], capacity[4]) if capacity else _gib(old[5], old[6]) if old else None,
    }
    if warming:
        detail["dummy_requests"] = int(warming[1])
    start = OUT.search(text).start()
    phase = f.WARMING_UP if warming else ""
    return Failure(f.OUT_OF_MEMORY, detail, text[start : start + 160], phase)


def _gib(number: str, unit: str) -> float:
    return round(float(number) * TO_GIB[unit], 2)


def merged(first: Failure | None, later: Failure | None) -> Failure | None:
    """The first message counts: the ones after it follow from it. But figures that only a later one has are taken
    over."""
    if first is None or later is None or first.kind != later.kind:
        return first or later
    detail = dict(first.detail or {})
    for name, value in (later.detail or {}).items():
        if detail.get(name) is None:
            detail[name] = value
    return Failure(first.kind, detail or None, first.message, later.phase or first.phase)
