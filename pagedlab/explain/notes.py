"""What misleads in a log: each note is a sentence or two, with this log's own numbers."""

from __future__ import annotations

import math
import re

from pagedlab.explain.arithmetic import Derived, two_numbers
from pagedlab.explain.card import Card
from pagedlab.explain.findings import NO_KV_MEMORY, POOL_TOO_SMALL, Findings

OLD_PP_CHECK = ((0, 14), (0, 16))  # from, before: PR 29431 brought it, PR 33698 mended it
LAST_MUTE = (0, 32)  # V1 had no "Preemptions: N" in its periodic line before PR 28522, and cleared it too early since


def notes(f: Findings, d: Derived, card: Card) -> list[str]:
    """What a reader of this log could get wrong, the most important first."""
    found = [
        *_starts(f), *_refusals(f, d), *_pool(f, d), *_graphs(f), *_workers(f), *_runtime(f, d), *_budget(f),
    ]  # fmt: skip
    if d.block_size_is_default:
        found.append("The block size is not in this log; 16 is vLLM's default on GPUs.")
    if f.weights_gib is not None and f.is_v0:
        found.append('"GB" in "Loading model weights took" is GiB.')
    if not card.of and f.total_gib is not None and f.weights_gib is not None and f.kv_cache_gib is not None:
        found.append("The parts do not add up to the card: they are of different moments or workers.")
    return found


def joined(*sentences: str) -> str:
    """The sentences one after the other; "" is none."""
    return " ".join(filter(None, sentences))


def version(f: Findings) -> tuple[int, int] | None:
    """(0, 32) of "0.32.0"; None where the log does not say."""
    numbers = re.match(r"(\d+)\.(\d+)", f.vllm_version or "")
    return (int(numbers[1]), int(numbers[2])) if numbers else None


def uses_stages(f: Findings) -> bool:
    """Does the log show pipeline parallelism?"""
    return (f.pipeline_parallel or 1) > 1 or f.pipeline_workers


def asks_for_whole_model(f: Findings) -> bool | None:
    """Is this a refusal of one stage for what all stages need together? None: if it is of v0.14 or v0.15."""
    if f.failure is None or "needed_gib" not in (f.failure.detail or {}) or not uses_stages(f):
        return False
    here, (since, until) = version(f), OLD_PP_CHECK
    return None if here is None else since <= here < until


def _starts(f: Findings) -> list[str]:
    if f.num_starts == 1:
        return []
    return [f"The log holds {f.num_starts} starts of vLLM. What is said here is of the last one."]


def _refusals(f: Findings, d: Derived) -> list[str]:
    found = []
    if f.stopped and f.failure is None:
        found.append(f"The engine stopped for a reason that is not one of memory's five: {f.stopped}")
    if f.failure is None:
        return found
    if f.failure.kind == POOL_TOO_SMALL and f.profiled_blocks is not None:
        found.append(
            f"The pool was set by hand: num_gpu_blocks_override={f.num_blocks} where {f.profiled_blocks} blocks fit. "
            "vLLM's advice to raise gpu_memory_utilization would not help: the override decides.")
    if (whole := asks_for_whole_model(f)) is not False:
        needed, stages = f.failure.detail["needed_gib"], f.pipeline_parallel
        found.append(joined(
            "In this version a refusal under pipeline parallelism can be wrong." if whole else
            "If this is v0.14 or v0.15, which the log does not say, a refusal under pipeline parallelism can be wrong.",
            f"It compares the whole model's need ({needed} GiB, all layers) with one stage's memory "
            f"({f.failure.detail['available_gib']} GiB), though a stage holds only its own layers.",
            f"With {stages} equal stages each needs about {needed / stages:.2f} GiB." if (stages or 1) > 1 else "",
            "The estimated length is too short for the same reason."))  # fmt: skip
    if f.failure.kind == NO_KV_MEMORY and f.kv_cache_gib is not None and f.kv_cache_gib < 0:
        found.append(f"The negative pool ({f.kv_cache_gib} GiB) is what weights and activations need beyond the "
                     "budget.")  # fmt: skip
    if d.get("usable_blocks") and f.failure.kind == POOL_TOO_SMALL:
        found.append(f"One of the {f.num_blocks} blocks is the null block, which holds nothing: "
                     f"{d.get('usable_blocks')} are left.")  # fmt: skip
    return found


def _pool(f: Findings, d: Derived) -> list[str]:
    found = []
    size = f.block_size or d.get("block_size")
    if d.by_padding:
        each = math.ceil(f.max_model_len / size)
        found.append(
            f"The printed {f.kv_cache_tokens:,} tokens are not blocks times block size: a request of "
            f"{f.max_model_len:,} tokens takes {each} whole blocks ({each * size:,} slots), and vLLM prints how many "
            f"such requests fit, times their length. The pool has {d.get('slots'):,} slots.")
    if two_numbers(f):
        found.append(
            f"The two lines disagree: {f.kv_cache_tokens:,} / {f.max_model_len:,} is "
            f"{f.kv_cache_tokens / f.max_model_len:.2f}, not {f.max_concurrency}. The concurrency is right. Up to "
            "about 0.20 the tokens of a model with several groups of layers are counted as blocks of one group. "
            "Neither the groups nor, unless it was set, the block size are in this log.")
    elif f.has_groups and f.max_concurrency is not None:
        found.append("The model has several groups of layers that take blocks from one pool: what one more token costs "
                     "depends on how long the request is already.")  # fmt: skip
    if f.padding_layers_pct is not None:
        found.append(f"Layers that only pad a group waste up to {f.padding_layers_pct} % of the pool.")
    if f.profiled_blocks is not None and f.failure is None:
        found.append(f"num_gpu_blocks_override={f.num_blocks} decides how large the pool is; {f.profiled_blocks} "
                     "blocks would fit.")  # fmt: skip
    return found


def _graphs(f: Findings) -> list[str]:
    found, estimate = [], f.cudagraph_estimate_gib
    if f.graphs_in_activation and f.activation_gib is not None:
        found.append(joined(
            "The figure for activations has an estimate of the CUDA graphs in it (since about 0.21).",
            f"It is {estimate} GiB of {f.activation_gib}." if estimate is not None else
            "Its size is not in this log."))  # fmt: skip
    if f.graphs_in_activation and f.suggested_kv_bytes:
        suggested = f.suggested_kv_bytes / 2**30
        found.append(joined(
            f"The suggested --kv-cache-memory={f.suggested_kv_bytes} ({suggested:.2f} GiB) counts CUDA graphs twice, "
            "once as estimated and once as captured, and keeps 0.15 GiB in hand.",
            f"Without that it would be {suggested + estimate:.2f} GiB." if estimate is not None else ""))  # fmt: skip
    return found


def _workers(f: Findings) -> list[str]:
    found = []
    if f.num_workers > 1 or (f.tensor_parallel or 1) > 1 or uses_stages(f):
        found.append("All GiB are of one GPU. Do not add up the cards' memory and take the weights off once.")
    engines = max(len(f.engines), f.data_parallel or 1, len(f.runtime.engines) if f.runtime else 1)
    if len(set(f.worker_kv_gib)) > 1 and engines == 1:
        found.append(f"The workers have from {f.worker_kv_gib[0]} to {f.worker_kv_gib[-1]} GiB for the pool. The "
                     "smallest counts: each has the same number of blocks.")  # fmt: skip
    elif f.failure and "fits_tokens" in (f.failure.detail or {}) and f.num_workers > 1:
        found.append("The pool is the smallest of the workers'. It may be another worker's than the one whose memory "
                     "is in this log, so the GiB above and the tokens need not belong together.")  # fmt: skip
    if engines > 1:
        sizes = ", ".join(f"{tokens:,}" for tokens in f.pools)
        found.append(joined(
            f"The log is of {engines} data-parallel engines, each with a pool of its own.",
            f"They have {sizes} tokens. The smallest is shown here." if len(f.pools) > 1 else
            "What is shown here is one engine's."))  # fmt: skip
    return found


def _runtime(f: Findings, d: Derived) -> list[str]:
    found = []
    run = f.runtime
    if run is None:
        return found
    blocks = f.num_blocks or d.get("num_blocks")
    counts = d.get("blocks_in_use")
    if counts and blocks and not f.is_v0 and any(counts):
        most = max(counts)
        if f"{most / (blocks - 1) * 100:.1f}" == f"{run.peak_kv_usage_pct:.1f}":
            found.append(f"The usage leaves the null block out: {run.peak_kv_usage_pct} % is {most} of {blocks - 1} "
                         f"blocks, not of {blocks}.")  # fmt: skip
    if run.preempted and not run.preemptions_printed:
        found.append(joined(
            f"No line says that a request was preempted. It shows in: {'; '.join(run.signs)}.",
            "There are more such signs." if run.num_signs > len(run.signs) else "",
            "" if f.is_v0 or (version(f) or LAST_MUTE) > LAST_MUTE else
            "V1 up to 0.32.0 cannot print it: its logger clears the counter before it composes the line."))  # fmt: skip
    if f.max_concurrency is not None and run.max_running and run.max_running > f.max_concurrency:
        found.append(f"{run.max_running} ran at once, more than {f.max_concurrency}: the concurrency is for requests "
                     f"of {f.max_model_len:,} tokens, and these were shorter.")  # fmt: skip
    return found


def _budget(f: Findings) -> list[str]:
    if f.utilization is None or f.total_gib is None:
        return []
    others = f.total_gib - f.free_at_start_gib if f.free_at_start_gib is not None else 0.0
    if others > 1:
        return [f"The budget is a share of the whole card, not of what was free: {others:.2f} GiB were already taken."]
    return []
