"""What to try, in the order to try it, with numbers from the log; where one is missing, it says which."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pagedlab.explain import findings as kinds
from pagedlab.explain.arithmetic import GIB, Derived, ceil2, floor2
from pagedlab.explain.findings import CAPTURING, LOADING, PROFILING, WARMING_UP, Findings
from pagedlab.explain.notes import asks_for_whole_model, joined

KVCACHE_SPACE = "VLLM_CPU_KVCACHE_SPACE"
BUFFER = 0.15  # GiB that vLLM itself leaves in hand when it suggests a size
UTILIZATION, SEQS, BATCH = "gpu_memory_utilization", "max_num_seqs", "max_num_batched_tokens"
CARD_UNSAID = "The card's size or what the utilization is now is not in this log."


@dataclass(frozen=True)
class Knob:
    """One thing to change, and what it would do: mostly a value to begin with, then sentences."""

    name: str
    effect: str


def _knob(name: str, *sentences: str, now: object = True) -> Knob:
    """``now``: what it is now; None if the log does not say, which the last sentence then does."""
    return Knob(name, joined(*sentences, f"What {name} is now is not in this log." if now is None else ""))


def advise(f: Findings, d: Derived) -> list[Knob]:
    """Three knobs, the first to try first."""
    by_kind: dict[str, Callable[[Findings, Derived], list[Knob]]] = {
        kinds.POOL_TOO_SMALL: _pool_too_small, kinds.NO_KV_MEMORY: _no_kv_memory, kinds.MEMORY_TAKEN: _memory_taken,
        kinds.OUT_OF_MEMORY: _out_of_memory, kinds.PROFILING_GREW: _profiling_grew,
    }  # fmt: skip
    return (by_kind[f.failure.kind] if f.failure else _running)(f, d)[:3]


def _pool_too_small(f: Findings, d: Derived) -> list[Knob]:
    fits = f.failure.detail.get("fits_tokens") or f.failure.detail.get("estimated_max_model_len")
    shorter = Knob("max_model_len", f"{fits:,} or less instead of {f.max_model_len:,}: that fits as it is." if fits else
                   f"less than {f.max_model_len:,}: the length that would fit is not in this log.")  # fmt: skip
    if f.profiled_blocks is not None:
        return [*_override(f, d), shorter]
    half = _fp8(f, None if f.has_groups else fits, f.max_model_len) if _has_16_bits(f) else _more_gpus(f)
    knobs = [shorter, _more_memory(f), half]
    if asks_for_whole_model(f) is not False:
        knobs.insert(0, Knob("the version", "a later one: since February 2026 (vLLM's PR 33698) a stage's memory is "
                             "compared with what its own layers need, not the whole model."))  # fmt: skip
    return knobs


def _override(f: Findings, d: Derived) -> list[Knob]:
    size, needed, fit = f.block_size or d.get("block_size"), d.get("blocks_needed"), f.profiled_blocks
    knobs = [_knob("num_gpu_blocks_override", f"leave it out: {fit} blocks fit instead of {f.num_blocks}.",
                   f"They hold {(fit - 1) * size:,} tokens." if size and not f.has_groups else "")]  # fmt: skip
    if needed is not None:
        knobs.append(_knob("num_gpu_blocks_override", f"{needed + 1} or more: {needed} blocks for one request of "
                           f"{f.max_model_len:,} tokens, and the null block.",
                           f"Only {fit} fit." if fit <= needed else ""))  # fmt: skip
    return knobs


def _more_memory(f: Findings) -> Knob:
    """The utilization that the refused length would need on this card."""
    detail, stage = f.failure.detail, ""
    if "needed_gib" in detail:
        needed, available = detail["needed_gib"], detail["available_gib"]
        if asks_for_whole_model(f) and (f.pipeline_parallel or 1) > 1:
            needed /= f.pipeline_parallel
            stage = "That is for the layers of one stage, if the stages are equal."
        lack = needed - available
        if lack <= 0:
            return _knob(UTILIZATION, f"need not be higher: {needed:.2f} GiB are needed, and {available} are there.",
                         stage)  # fmt: skip
        need = f"{lack:.2f} GiB more are needed ({needed:.2f} instead of {available})."
    elif f.kv_cache_gib and (fits := detail.get("fits_tokens")):
        lack = f.kv_cache_gib * (f.max_model_len / fits - 1)
        need = f"about {lack:.2f} GiB more are needed ({f.max_model_len:,} tokens instead of {fits:,})."
    else:
        return Knob(UTILIZATION, "higher: how much more memory is needed is not in this log.")
    if not f.total_gib or f.utilization is None:
        return _knob(UTILIZATION, "higher:", need, stage, "All GiB are of one GPU.", CARD_UNSAID)
    wanted, most = f.utilization + lack / f.total_gib, _most(f)
    if wanted <= most:
        return _knob(UTILIZATION, f"{ceil2(wanted)} instead of {f.utilization}:", need, stage)
    reach = _reach(f, most)
    return _knob(UTILIZATION, "not enough by itself:", need, stage, f"That would be {wanted:.2f} of this card.",
                 f"{most} is the most, for about {reach:,} tokens." if reach else f"{most} is the most.")  # fmt: skip


def _reach(f: Findings, most: float) -> int | None:
    """How long a request could be with the highest utilization; None where that does not follow."""
    detail, more = f.failure.detail, (most - f.utilization) * f.total_gib
    if more > 0 and detail.get("needed_gib", 0) > 0 and not f.has_groups:
        return int(f.max_model_len * (detail["available_gib"] + more) / detail["needed_gib"])
    if more > 0 and detail.get("fits_tokens") and f.kv_cache_gib:
        return int(detail["fits_tokens"] * (f.kv_cache_gib + more) / f.kv_cache_gib)
    return None


def _most(f: Findings) -> float:
    """The highest utilization that this card starts with: what was free, less CUDA graphs beyond the budget."""
    free = f.free_at_start_gib if f.free_at_start_gib is not None else f.total_gib
    graphs = 0.0 if f.graphs_in_activation else max(f.cudagraph_gib or 0.0, 0.0)
    return floor2((free - graphs - BUFFER) / f.total_gib)


def _has_16_bits(f: Findings) -> bool:
    """Has the KV cache 16 bits, or does the log not say?"""
    return f.kv_cache_dtype in (None, "auto") or "16" in f.kv_cache_dtype


def _fp8(f: Findings, tokens: int | None, length: int | None = None) -> Knob:
    """``tokens``: what the pool holds, if half the bytes double it; ``length``: what one request wants of it."""
    held = ""
    if tokens and length is None:
        held = f"The pool would hold about {2 * tokens:,} tokens instead of {tokens:,}."
    elif tokens and 2 * tokens >= length:
        held = f"The pool would hold about {2 * tokens:,} tokens instead of {tokens:,}, enough."
    elif tokens:
        held = f"The pool would hold about {2 * tokens:,} tokens instead of {tokens:,}, still less than {length:,}."
    unsaid = "" if f.kv_cache_dtype else "How many they have now is not in this log."
    return _knob("kv_cache_dtype", "fp8 halves what a token costs if K and V have 16 bits now.", unsaid, held)


def _more_gpus(f: Findings) -> Knob:
    now, weights = f.tensor_parallel, f.weights_gib
    return _knob(
        "tensor_parallel_size", f"{2 * now} instead of {now}:" if now else "twice what it is:",
        f"about {weights / 2:.2f} GiB of weights less on each GPU, and each holds half of K and V if the KV heads "
        "divide." if weights else "each GPU holds half of K and V if the KV heads divide.", now=now)  # fmt: skip


def _no_kv_memory(f: Findings, d: Derived) -> list[Knob]:
    lack = -f.kv_cache_gib if f.kv_cache_gib is not None and f.kv_cache_gib < 0 else None
    need = (f"{lack:.2f} GiB are missing before the first block." if lack is not None else
            "how much is missing is not in this log.")  # fmt: skip
    peak = f.activation_gib if f.activation_gib is not None else d.get("activation_gib")
    now, batch, gpus = f.utilization, f.max_num_batched_tokens, _more_gpus(f)
    tokens = _knob(
        BATCH, f"less than {batch:,}:" if batch else "lower:", "the activations' peak is of a step of so many tokens.",
        f"It is {peak} GiB." if peak is not None else "Its size is not in this log.", now=batch)  # fmt: skip
    if not f.total_gib or now is None or lack is None:
        return [_knob(UTILIZATION, "higher:" if now is None else f"higher than {now}:", need), tokens, gpus]
    wanted, most = now + lack / f.total_gib, _most(f)
    if wanted >= most:
        return [gpus, tokens, _knob(UTILIZATION, "not enough by itself:", need, f"More than {most} is not there.")]
    pool = f"Up to {most} is possible, for a pool of {(most - wanted) * f.total_gib:.2f} GiB."
    return [_knob(UTILIZATION, f"more than {ceil2(wanted)} instead of {now}:", need, pool), tokens, gpus]


def _memory_taken(f: Findings, d: Derived) -> list[Knob]:
    detail, most = f.failure.detail, d.get("highest_utilization")
    taken, free, wanted = detail["taken_by_others_gib"], detail["free_gib"], detail["wanted_gib"]
    what = "end what holds the memory." if taken is None else f"end what holds the {taken} GiB."
    lower = Knob(UTILIZATION, f"lower: {free} GiB are free, {wanted} are wanted." if None in (most, f.utilization) else
                 f"{most} or less instead of {f.utilization}, a budget of {most * f.total_gib:.2f} GiB, in which the "
                 "weights must fit.")  # fmt: skip
    if f.device == "CPU":
        return [
            _knob("other processes", what, "`top` names it. Often it is an engine that did not end."),
            Knob(KVCACHE_SPACE, f"a size by hand, in whole GiB: less than the {free} that are free."),
            lower if taken is not None else Knob("another node", f"cores of a node with {wanted} GiB free."),
        ]
    return [
        _knob("other processes", what, "`nvidia-smi` names it. Often it is an engine that did not end."),
        lower,
        Knob("CUDA_VISIBLE_DEVICES", f"another card, with {wanted} GiB free."),
    ]


def _out_of_memory(f: Findings, d: Derived) -> list[Knob]:
    detail, phase, now = f.failure.detail, f.failure.phase, f.utilization
    tried, free, gpus = detail.get("tried_gib"), detail.get("free_gib"), _more_gpus(f)
    demand = (f"{tried} GiB were asked for where {free} were free." if None not in (tried, free) else
              "how much was asked for, or was free, is not in this log.")  # fmt: skip
    if phase == LOADING:
        return [
            gpus,
            _knob("quantization", "weights of fewer bits:", demand, "The memory ran out while they were loaded."),
            Knob("other processes", "see with `nvidia-smi` whether something else holds memory of this card; "
                 "gpu_memory_utilization decides nothing yet while weights load."),
        ]  # fmt: skip
    if now is None or not f.total_gib or None in (tried, free):
        lower = _knob(UTILIZATION, "lower:" if now is None else f"lower than {now}:", demand, now=now)
    else:
        enough = floor2(now - (max(tried - free, 0.0) + BUFFER) / f.total_gib)
        lower = _knob(UTILIZATION, f"{enough} or less instead of {now}:", demand, f"{BUFFER} GiB stay in hand.")
    rows, batch = detail.get("dummy_requests") or f.max_num_seqs, f.max_num_batched_tokens
    less = f"{rows // 2} instead of {rows}:" if rows else "lower:"
    seqs = _knob(SEQS, less, "fewer rows of logits at once.", now=rows)
    less = f"{batch // 2:,} instead of {batch:,}:" if batch else "lower:"
    tokens = _knob(BATCH, less, "smaller activations.", now=batch)
    graphs = f.cudagraph_estimate_gib
    eager = _knob("enforce_eager", f"no CUDA graphs: they take {graphs} GiB as estimated." if graphs is not None else
                  "no CUDA graphs: they take memory beyond the budget. How much is not in this log.",
                  "Decoding is slower without them.")  # fmt: skip
    by_phase = {WARMING_UP: [seqs, lower, tokens], CAPTURING: [lower, eager, seqs], PROFILING: [tokens, seqs, gpus]}
    return by_phase.get(phase, [lower, tokens, seqs])


def _profiling_grew(f: Findings, d: Derived) -> list[Knob]:
    before, after = f.failure.detail.get("initial_free_gib"), f.failure.detail.get("current_free_gib")
    grew = ("memory became free while vLLM measured." if None in (before, after) else
            f"{after - before:.2f} GiB became free while vLLM measured." if after > before else
            "not a byte less was free after the run than before it.")  # fmt: skip
    return [
        _knob("start it again", grew, "Another process let go of memory.",
              "Now it would start." if after is None else f"Now it would start with {after} GiB free."),
        Knob("other processes", "start what shares this card one after the other, or give vLLM a card of its own."),
        _knob("kv_cache_memory_bytes", "a size by hand skips the measurement.", "Which size fits is not in this log."
              if after is None or f.weights_gib is None else
              f"It must be less than {after:.2f} - {f.weights_gib:.2f} = {after - f.weights_gib:.2f} GiB, what is free "
              "less the weights, as activations need some too."),
    ]  # fmt: skip


def _running(f: Findings, d: Derived) -> list[Knob]:
    """Nothing failed: what would make the pool larger, or its requests fewer."""
    tokens = d.get("true_capacity_tokens") or f.kv_cache_tokens or d.get("kv_cache_tokens")
    if f.device != "CPU" and _has_16_bits(f):
        return [_larger(f, d), _fp8(f, None if f.has_groups or d.by_groups else tokens), _seqs(f)]
    return [_larger(f, d), _shorter(f.max_model_len, tokens), _seqs(f)]


def _larger(f: Findings, d: Derived) -> Knob:
    now, pool, total, per_token = f.utilization, f.kv_cache_gib, f.total_gib, d.get("bytes_per_token")
    if f.profiled_blocks is not None:
        return _override(f, d)[0]
    if f.device == "CPU":
        return _knob(KVCACHE_SPACE, "more GiB than now." if pool is None else f"more than {pool} GiB.",
                     f"This node has {total} GiB." if total else "")  # fmt: skip
    if not total or now is None:
        return _knob(UTILIZATION, "higher.", CARD_UNSAID)
    most = _most(f)
    more = (most - now) * total
    if more <= 0.005 * total:
        return Knob(UTILIZATION, f"{now} is already all that this card has.")
    return Knob(UTILIZATION, f"up to {most} instead of {now}: {more:.2f} GiB more, about "
                f"{int(more * GIB / per_token):,} tokens." if per_token else
                f"up to {most} instead of {now}: {more:.2f} GiB more.")  # fmt: skip


def _shorter(length: int | None, tokens: int | None) -> Knob:
    if not length or length < 2 or not tokens:
        return Knob("max_model_len", "shorter requests leave room for more of them. How many fit is not in this log.")
    half = length // 2
    return Knob("max_model_len", f"{half:,} instead of {length:,}: about {tokens / half:.2f} such requests fit at once "
                f"instead of {tokens / length:.2f}. The pool stays as it is.")  # fmt: skip


def _seqs(f: Findings) -> Knob:
    run, now, fits = f.runtime, f.max_num_seqs, int(f.max_concurrency or 0)
    if run and run.preempted and run.max_running:
        fewer = max(run.max_running - 1, 1)
        return _knob(SEQS, f"{fewer} or less instead of {now}:" if now else f"{fewer} or less:",
                     f"with {run.max_running} running, requests were put back and had to be computed again.",
                     now=now)  # fmt: skip
    if now and fits >= max(now, 1):
        return Knob(SEQS, f"{now}, as now, never preempts, even if every request grows to {f.max_model_len:,} tokens: "
                    f"{fits} would fit.")  # fmt: skip
    if fits >= 1:
        return _knob(
            SEQS, f"{fits} never preempts, even if every request grows to {f.max_model_len:,} tokens." if not now else
            f"{fits} instead of {now} never preempts, even if every request grows to {f.max_model_len:,} tokens.",
            "More is fine for shorter ones.", now=now)  # fmt: skip
    return _knob(SEQS, f"less than {now} if requests are preempted." if now else "lower if requests are preempted.",
                 "The concurrency is not in this log." if f.max_concurrency is None else "", now=now)  # fmt: skip
