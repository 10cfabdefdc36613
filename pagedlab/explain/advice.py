"""What to try, in the order to try it, with numbers from the log; where one is missing, it says which."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pagedlab.explain import findings as kinds
from pagedlab.explain.arithmetic import GIB, Derived, ceil2, floor2
from pagedlab.explain.findings import CAPTURING, LOADING, PROFILING, WARMING_UP, Findings
from pagedlab.explain.notes import asks_for_whole_model

BUFFER = 0.15  # GiB that vLLM itself leaves in hand when it suggests a size


@dataclass(frozen=True)
class Knob:
    """One thing to change, and what it would do."""

    name: str
    effect: str


def advise(f: Findings, d: Derived) -> list[Knob]:
    """Three knobs, the first to try first."""
    by_kind: dict[str, Callable[[Findings, Derived], list[Knob]]] = {
        kinds.POOL_TOO_SMALL: _pool_too_small, kinds.NO_KV_MEMORY: _no_kv_memory, kinds.MEMORY_TAKEN: _memory_taken,
        kinds.OUT_OF_MEMORY: _out_of_memory, kinds.PROFILING_GREW: _profiling_grew,
    }  # fmt: skip
    return (by_kind[f.failure.kind] if f.failure else _running)(f, d)[:3]


def _pool_too_small(f: Findings, d: Derived) -> list[Knob]:
    detail, knobs = f.failure.detail, []
    fits = detail.get("fits_tokens") or detail.get("estimated_max_model_len")
    shorter = Knob("max_model_len", f"{fits:,} or less instead of {f.max_model_len:,}: that fits as it is." if fits else
                   f"less than {f.max_model_len:,}; the length that would fit is not in this log.")  # fmt: skip
    if f.profiled_blocks is not None:
        return [*_override(f, d), shorter]
    knobs.append(shorter)
    knobs.append(_more_memory(f, d))
    knobs.append(_fewer_bytes(f, fits))
    if asks_for_whole_model(f) is not False:
        knobs.insert(0, Knob("the version", "a later one: since February 2026 (vLLM's PR 33698) a stage's memory is "
                             "compared with what its own layers need, not the whole model."))  # fmt: skip
    return knobs


def _override(f: Findings, d: Derived) -> list[Knob]:
    size, needed = f.block_size or d.get("block_size"), d.get("blocks_needed")
    room = (f", which holds {(f.profiled_blocks - 1) * size:,} tokens" if size and not f.has_groups else "")
    enough = needed is not None and f.profiled_blocks > needed
    knobs = [Knob("num_gpu_blocks_override", f"leave it out: {f.profiled_blocks} blocks fit instead of {f.num_blocks}"
                  f"{room}.")]  # fmt: skip
    if needed is not None:
        fit = "" if enough else f", but only {f.profiled_blocks} fit"
        knobs.append(Knob("num_gpu_blocks_override", f"{needed + 1} or more: {needed} blocks for one request of "
                          f"{f.max_model_len:,} tokens, and the null block{fit}."))  # fmt: skip
    return knobs


def _more_memory(f: Findings, d: Derived) -> Knob:
    """The utilization that the refused length would need on this card."""
    detail = f.failure.detail
    if "needed_gib" in detail:
        needed, whose = detail["needed_gib"], ""
        if asks_for_whole_model(f) and (f.pipeline_parallel or 1) > 1:
            needed, whose = needed / f.pipeline_parallel, " for the layers of one stage, if the stages are equal"
        lack = needed - detail["available_gib"]
        if lack <= 0:
            return Knob("gpu_memory_utilization", f"need not be higher: {needed:.2f} GiB are needed{whose}, and "
                        f"{detail['available_gib']} are there.")  # fmt: skip
        about = f"{lack:.2f} GiB more are needed ({needed:.2f} instead of {detail['available_gib']}{whose})"
    elif f.kv_cache_gib and detail.get("fits_tokens"):
        lack = f.kv_cache_gib * (f.max_model_len / detail["fits_tokens"] - 1)
        about = (f"about {lack:.2f} GiB more are needed ({f.max_model_len:,} tokens instead of "
                 f"{detail['fits_tokens']:,})")  # fmt: skip
    else:
        return Knob("gpu_memory_utilization", "higher; how much more memory is needed is not in this log.")
    if not f.total_gib or f.utilization is None:
        return Knob("gpu_memory_utilization", f"higher: {about} on each GPU. The card's size or what the utilization "
                    "is now is not in this log.")  # fmt: skip
    wanted, most = f.utilization + lack / f.total_gib, _most(f)
    if wanted <= most:
        return Knob("gpu_memory_utilization", f"{ceil2(wanted)} instead of {f.utilization}: {about}.")
    reach = _reach(f, lack, most)
    return Knob("gpu_memory_utilization", f"not enough by itself: {about}, which would be {wanted:.2f} of this card; "
                f"{most} is the most{reach}.")  # fmt: skip


def _reach(f: Findings, lack: float, most: float) -> str:
    """How long a request could be with the highest utilization."""
    detail, more = f.failure.detail, (most - f.utilization) * f.total_gib
    if more <= 0:
        return ""
    if "needed_gib" in detail and detail["needed_gib"] > 0 and not f.has_groups:
        return f", for about {int(f.max_model_len * (detail['available_gib'] + more) / detail['needed_gib']):,} tokens"
    if detail.get("fits_tokens") and f.kv_cache_gib:
        return f", for about {int(detail['fits_tokens'] * (f.kv_cache_gib + more) / f.kv_cache_gib):,} tokens"
    return ""


def _most(f: Findings) -> float:
    """The highest utilization that this card starts with: what was free, less CUDA graphs beyond the budget."""
    free = f.free_at_start_gib if f.free_at_start_gib is not None else f.total_gib
    graphs = 0.0 if f.graphs_in_activation else max(f.cudagraph_gib or 0.0, 0.0)
    return floor2((free - graphs - BUFFER) / f.total_gib)


def _fewer_bytes(f: Findings, fits: int | None) -> Knob:
    """A KV cache of half the bytes where it is not one yet, else more GPUs."""
    dtype = f.kv_cache_dtype
    if dtype is None or dtype == "auto" or dtype.removeprefix("torch.") in ("bfloat16", "float16"):
        now = "" if dtype else " (what it is now is not in this log)"
        held = f": about {2 * fits:,} tokens instead of {fits:,}" if fits and not f.has_groups else ""
        if held and f.max_model_len:
            held += ", enough" if 2 * fits >= f.max_model_len else f", still less than {f.max_model_len:,}"
        return Knob("kv_cache_dtype", f"fp8 halves what a token costs if K and V have 16 bits now{now}{held}.")
    return _more_gpus(f)


def _more_gpus(f: Findings) -> Knob:
    now = f.tensor_parallel
    to = f"{2 * now} instead of {now}" if now else "twice what it is (it is not in this log)"
    saved = f": about {f.weights_gib / 2:.2f} GiB of weights less on each GPU" if f.weights_gib else ""
    return Knob("tensor_parallel_size", f"{to}{saved}, and each holds half of K and V if the KV heads divide.")


def _no_kv_memory(f: Findings, d: Derived) -> list[Knob]:
    lack = -f.kv_cache_gib if f.kv_cache_gib is not None and f.kv_cache_gib < 0 else None
    need = f"{lack:.2f} GiB are missing before the first block" if lack is not None else (
        "how much is missing is not in this log")  # fmt: skip
    if not f.total_gib or f.utilization is None or lack is None:
        now = f" than {f.utilization}" if f.utilization is not None else ""
        first = Knob("gpu_memory_utilization", f"higher{now}: {need}.")
    else:
        wanted, most = f.utilization + lack / f.total_gib, _most(f)
        fits = wanted < most
        first = Knob("gpu_memory_utilization", (f"more than {ceil2(wanted)} instead of {f.utilization}: {need}; up to "
                     f"{most} is possible, for a pool of {(most - wanted) * f.total_gib:.2f} GiB." if fits else
                     f"not enough by itself: {need}, and more than {most} is not there."))  # fmt: skip
    activation = f.activation_gib if f.activation_gib is not None else d.get("activation_gib")
    batch = f.max_num_batched_tokens
    peak = f"{activation} GiB" if activation is not None else "which is not in this log"
    lower = f"less than {batch:,}" if batch else "lower (what it is now is not in this log)"
    second = Knob("max_num_batched_tokens", f"{lower}: the activations' peak, {peak}, is of a step of so many tokens.")
    third = _more_gpus(f)
    if first.effect.startswith("not enough"):
        return [third, second, first]
    return [first, second, third]


def _memory_taken(f: Findings, d: Derived) -> list[Knob]:
    detail, most = f.failure.detail, d.get("highest_utilization")
    taken = detail["taken_by_others_gib"]
    budget = f", a budget of {most * f.total_gib:.2f} GiB, in which the weights must fit" if most is not None else ""
    return [
        Knob("other processes", f"end what holds {f'the {taken} GiB' if taken is not None else 'the memory'} "
             "(`nvidia-smi` names it; often it is an engine that did not end)."),
        Knob("gpu_memory_utilization", f"{most} or less instead of {f.utilization}{budget}." if most is not None else
             f"lower: {detail['free_gib']} GiB are free, {detail['wanted_gib']} are wanted."),
        Knob("CUDA_VISIBLE_DEVICES", f"another card, with {detail['wanted_gib']} GiB free."),
    ]  # fmt: skip


def _out_of_memory(f: Findings, d: Derived) -> list[Knob]:
    detail, phase = f.failure.detail, f.failure.phase
    tried, free = detail.get("tried_gib"), detail.get("free_gib")
    lack = max(tried - free, 0.0) if tried is not None and free is not None else None
    demand = (f"{tried} GiB were asked for where {free} were free" if lack is not None else
            "how much was asked for is not in this log")  # fmt: skip
    if phase == LOADING:
        return [
            _more_gpus(f),
            Knob("quantization", f"weights of fewer bits: {demand} while they were loaded."),
            Knob("other processes", "see with `nvidia-smi` whether something else holds memory of this card; "
                 "gpu_memory_utilization decides nothing yet while weights load."),
        ]  # fmt: skip
    if f.utilization is not None and f.total_gib and lack is not None:
        enough = floor2(f.utilization - (lack + BUFFER) / f.total_gib)
        lower = Knob("gpu_memory_utilization", f"{enough} or less instead of {f.utilization}: {demand}; {BUFFER} GiB "
                     "stay in hand.")  # fmt: skip
    else:
        now = f" than {f.utilization}" if f.utilization is not None else " (what it is now is not in this log)"
        lower = Knob("gpu_memory_utilization", f"lower{now}: {demand}.")
    dummy = detail.get("dummy_requests") or f.max_num_seqs
    seqs = Knob("max_num_seqs", f"{dummy // 2} instead of {dummy}: fewer rows of logits at once." if dummy else
                "lower (what it is now is not in this log): fewer rows of logits at once.")  # fmt: skip
    batch = f.max_num_batched_tokens
    fewer = f"{batch // 2:,} instead of {batch:,}" if batch else "lower (what it is now is not in this log)"
    tokens = Knob("max_num_batched_tokens", f"{fewer}: smaller activations.")
    graphs = Knob("enforce_eager", "no CUDA graphs, which take "
                  + (f"{f.cudagraph_estimate_gib} GiB as estimated" if f.cudagraph_estimate_gib is not None else
                     "memory beyond the budget; how much is not in this log") + "; decoding is slower.")  # fmt: skip
    if phase == WARMING_UP:
        return [seqs, lower, tokens]
    if phase == CAPTURING:
        return [lower, graphs, seqs]
    if phase == PROFILING:
        return [tokens, seqs, _more_gpus(f)]
    return [lower, tokens, seqs]


def _profiling_grew(f: Findings, d: Derived) -> list[Knob]:
    detail = f.failure.detail
    before, after = detail.get("initial_free_gib"), detail.get("current_free_gib")
    grew = f"{after - before:.2f} GiB became free" if before is not None and after is not None else "memory became free"
    if before is not None and after is not None and after <= before:
        grew = "not a byte less was free after the run than before it"
    again = f" with {after} GiB free" if after is not None else ""
    return [
        Knob("start it again", f"{grew} while vLLM measured, let go of by another process; now it would start{again}."),
        Knob("other processes", "start what shares this card one after the other, or give vLLM a card of its own."),
        Knob("kv_cache_memory_bytes", "a size by hand skips the measurement; which size fits is not in this log."
             if after is None or f.weights_gib is None else
             f"a size by hand skips the measurement; less than {after:.2f} - {f.weights_gib:.2f} = "
             f"{after - f.weights_gib:.2f} GiB, what is free less the weights, as activations need some too."),
    ]  # fmt: skip


def _running(f: Findings, d: Derived) -> list[Knob]:
    """Nothing failed: what would make the pool larger, or its requests fewer."""
    if f.profiled_blocks is not None:
        knobs = _override(f, d)[:1]
    elif f.total_gib and f.utilization is not None and f.device != "CPU":
        most = _most(f)
        more = (most - f.utilization) * f.total_gib
        per_token = d.get("bytes_per_token")
        tokens = f", about {int(more * GIB / per_token):,} tokens" if per_token and more > 0 else ""
        knobs = [Knob("gpu_memory_utilization", f"up to {most} instead of {f.utilization}: {more:.2f} GiB more{tokens}."
                      if more > 0.005 * f.total_gib else f"{f.utilization} is already all that this card has.")]
    elif f.device == "CPU":
        knobs = [Knob("VLLM_CPU_KVCACHE_SPACE", "more GiB"
                      + (f" than {f.kv_cache_gib}" if f.kv_cache_gib is not None else "")
                      + (f", of {f.total_gib} on this node." if f.total_gib else "."))]  # fmt: skip
    else:
        knobs = [Knob("gpu_memory_utilization", "higher; the size of the card or what it is now is not in this log.")]
    tokens = d.get("true_capacity_tokens") or f.kv_cache_tokens or d.get("kv_cache_tokens")
    knobs.append(_fewer_bytes_running(f, tokens, simple=not (f.has_groups or d.by_groups)))
    knobs.append(_seqs(f, d))
    return knobs


def _fewer_bytes_running(f: Findings, tokens: int | None, simple: bool) -> Knob:
    dtype = f.kv_cache_dtype
    if f.device == "CPU" or (dtype and dtype != "auto" and "16" not in dtype):
        length, fit = f.max_model_len, tokens
        if not length or length < 2 or not fit:
            return Knob("max_model_len", "shorter requests leave room for more of them; the pool is not in this log.")
        return Knob("max_model_len", f"{length // 2:,} instead of {length:,}: about {fit / (length // 2):.2f} such "
                    f"requests fit at once instead of {fit / length:.2f}; the pool stays as it is.")  # fmt: skip
    now = "" if dtype else " (what it is now is not in this log)"
    held = f": about {2 * tokens:,} tokens instead of {tokens:,}" if tokens and simple else ""
    return Knob("kv_cache_dtype", f"fp8 halves what a token costs if K and V have 16 bits now{now}{held}.")


def _seqs(f: Findings, d: Derived) -> Knob:
    run, now = f.runtime, f.max_num_seqs
    from_now = f" instead of {now}" if now else " (what it is now is not in this log)"
    if run and run.preempted and run.max_running:
        return Knob("max_num_seqs", f"{max(run.max_running - 1, 1)} or less{from_now}: with {run.max_running} running, "
                    "requests were put back and had to be computed again.")  # fmt: skip
    if f.max_concurrency is not None and f.max_concurrency >= 1:
        fits = int(f.max_concurrency)
        grows = f"even if every request grows to {f.max_model_len:,} tokens"
        if now and now <= fits:
            return Knob("max_num_seqs", f"{now}, as now, never preempts, {grows}: {fits} would fit.")
        return Knob("max_num_seqs", f"{fits}{from_now} never preempts, {grows}; more is fine for shorter ones.")
    return Knob("max_num_seqs", f"lower{from_now} if requests are preempted; the concurrency is not in this log.")
