"""What the engine says when a request can never run here, an edit cannot be made, or a pool is smaller than it should
be. Each function returns a sentence, or None where there is nothing to say."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable
from typing import Any

from pagedlab.engine.beam import BeamSearchParams
from pagedlab.engine.request import SamplingParams
from pagedlab.errors import is_whole
from pagedlab.executor.pool_size import GIB
from pagedlab.kv.block_table import BlockTable

NO_BEAMS = 'Beam search forks sequences, which V1 cannot: make the engine with LLM(..., era="paper").'
NO_FORKS = 'V1 shares full blocks only and cannot fork: make the engine with LLM(..., era="paper").'
NO_COPIES = 'V1 never copies a block: make the engine with LLM(..., era="paper").'
NOT_ONE_STEP_AHEAD = (
    "async_scheduling=True needs a scheduler that plans one step ahead, and a manager with cache_blocks(request, "
    "num_tokens): leave scheduler= and kv_cache_manager= out, or give subclasses of pagedlab's AsyncScheduler and "
    "KVCacheManager."
)
ONE_TABLE_ONLY = (
    "This model has layers that look back only so far, and so several block tables a request. A kv_cache_manager of "
    "your own keeps one: leave it out, or take a model whose layers all look at everything."
)
NO_WINDOWS_THEN = (
    "This model has layers that look back only so far, which the paper's era did not know: make the engine with "
    'era="v1".'
)
NO_EDITS_OF_GROUPS = (
    "This model's layers have several block tables a request, and edits by hand are made for one: take a model whose "
    "layers all look at everything."
)
NOTHING_TO_OVERLAP = (
    "async_scheduling=True on a CPU gains no time: the processor that would plan the next step is busy with this one. "
    "What it changes in memory is as on a GPU. (vLLM leaves it off on CPUs.)"
)
MORE_MEMORY = "give it more memory (gpu_memory_utilization, device_memory) or blocks (num_gpu_blocks_override)."


def executor_cannot(executor: Any, attention: Any, batch_invariant: bool) -> str | None:
    """Of an ``attention`` that is not ours, for an executor that has none to replace; of ``batch_invariant=True``, for
    one whose sums go by the batch, and for attention of which nobody knows."""
    if attention is not None and not hasattr(executor, "attention"):
        return f"{type(executor).__name__} has no attention that could be replaced."
    if not batch_invariant:
        return None
    if not getattr(executor, "can_be_batch_invariant", False):
        return (
            f"batch_invariant=True is not kept by {type(executor).__name__}: the order of its sums goes by the size "
            'of the batch. It is kept where torch runs the model (device="cpu", "cuda" or "mps").'
        )
    if attention is not None:
        return (
            "batch_invariant=True is kept by pagedlab's own attention, in fixed tiles, and says nothing of another "
            "one. Leave attention= out, or batch_invariant."
        )
    return None


def prompt_too_long(num_tokens: int, max_model_len: int) -> str | None:
    """Of a prompt of so many tokens, or none, before its memory is looked at."""
    if num_tokens == 0:
        return "The prompt is empty; give at least one token."
    if num_tokens >= max_model_len:
        return (
            f"The prompt has {num_tokens} tokens; max_model_len is {max_model_len}, which leaves room for at most "
            f"{max_model_len - 1}. Shorten the prompt."
        )
    return None


def never_whole(max_num_batched_tokens: int, max_model_len: int) -> str | None:
    """Without chunked prefill. Source: vLLM ``config/scheduler.py``, ``SchedulerConfig.verify_max_model_len``."""
    if max_num_batched_tokens >= max_model_len:
        return None
    return (
        f"Without chunked prefill a step must have room for the longest request: max_num_batched_tokens is "
        f"{max_num_batched_tokens}, max_model_len {max_model_len}. Raise the one, lower the other, or leave "
        "enable_chunked_prefill on."
    )


def unknown_stop_token(params: SamplingParams | BeamSearchParams, vocab_size: int) -> str | None:
    """Of a stop token that the model can never write; token ids go from 0 to ``vocab_size`` - 1."""
    unknown = [token for token in getattr(params, "stop_token_ids", ()) if token >= vocab_size]
    if unknown:
        return f"stop_token_ids has {unknown[0]}, which is not in the vocabulary; allowed are 0 to {vocab_size - 1}."
    return None


def longest(num_tokens: int, params: SamplingParams | BeamSearchParams, max_model_len: int) -> int:
    """How many tokens a sequence may come to have in memory: the one sampled last is never written."""
    return min(num_tokens + params.max_tokens, max_model_len) - 1


def no_room(num_tokens: int, params: SamplingParams, *, needed: int, block_size: int, num_blocks: int) -> str | None:
    """V1. ``num_tokens``: of the prompt. ``needed``: blocks, at most at once."""
    if needed <= num_blocks - 1:
        return None
    return (
        f"The pool is too small: this request may need {needed} blocks ({num_tokens} prompt tokens and up to "
        f"{params.max_tokens} new ones, {block_size} a block), and there are {num_blocks - 1} besides the null block. "
        f"Lower max_tokens, or {MORE_MEMORY}"
    )


def no_room_for_group(
    num_tokens: int,
    params: SamplingParams | BeamSearchParams,
    *,
    max_model_len: int,
    block_size: int,
    num_blocks: int,
    watermark_blocks: int,
    max_num_seqs: int,
    max_num_batched_tokens: int,
) -> str | None:
    """The paper's era. The worst case must fit, so that whoever is admitted can finish: nothing but the prompt's full
    blocks is shared."""
    width, shared = params.n, num_tokens // block_size
    most = longest(num_tokens, params, max_model_len)
    blocks = shared + width * (-(-most // block_size) - shared)
    spare = width + watermark_blocks  # free blocks that must be left: one for each sequence when it decodes, too
    what = f"{num_tokens} prompt tokens, {width} times up to {params.max_tokens} new ones, {block_size} a block"
    less = "beam_width" if isinstance(params, BeamSearchParams) else "n"
    if blocks + spare > num_blocks:
        return (
            f"The pool is too small: this request may need {blocks} blocks ({what}) and {spare} free ones besides, and "
            f"there are {num_blocks}. Lower {less} or max_tokens, or {MORE_MEMORY}"
        )
    if width > max_num_seqs:
        return f"{less} is {width}, and at most {max_num_seqs} sequences can run (max_num_seqs). Lower {less}."
    tokens = shared * block_size + width * (most - shared * block_size)
    if tokens > max_num_batched_tokens:
        return (
            f"This request may have to be computed again in one step of {tokens} tokens ({what}), and "
            f"max_num_batched_tokens is {max_num_batched_tokens}; nothing is chunked in this era. Lower {less} or "
            "max_tokens, or raise max_num_batched_tokens."
        )
    return None


def pool_below_max_model_len(
    max_model_len: int, *, blocks_for: Callable[[int], int], block_size: int, usable_blocks: int, bytes_per_block: int
) -> str | None:
    """Of a pool in which one request of ``max_model_len`` tokens has no room. ``blocks_for``: tokens -> the blocks they
    take. ``usable_blocks``: without the null block.

    Source: vLLM ``v1/core/kv_cache_utils.py``, ``_check_enough_kv_cache_memory`` (the condition; it counts the last
    token too, which is never written) and ``_estimate_max_model_len_from_groups``.
    """
    needed = blocks_for(max_model_len)
    if needed <= usable_blocks:
        return None
    fits = bisect(range(1, max_model_len), usable_blocks, key=blocks_for)
    return (
        f"The pool cannot hold a request of max_model_len={max_model_len} tokens: that takes {needed} blocks of "
        f"{block_size} ({needed * bytes_per_block / GIB:.2f} GiB of KV cache), and it has {usable_blocks} for requests "
        f"({usable_blocks * bytes_per_block / GIB:.2f} GiB). vLLM v0.32.0 would refuse to start, and name {fits} as "
        f'"the estimated maximum model length"; here only requests that do not fit are refused. Set '
        f"max_model_len={fits} or less, or {MORE_MEMORY}"
    )


def no_entry(
    tables: dict[str, BlockTable], request_id: str, logical_block: int, block_id: int, num_blocks: int
) -> str | None:
    """Of an entry in a running request's table that is to be pointed at a block."""
    if hasattr(tables.get(request_id), "groups"):
        return NO_EDITS_OF_GROUPS
    if request_id not in tables:
        return f"Request {request_id!r} is not running; running are: {', '.join(tables) or 'none'}."
    entries = len(tables[request_id])
    if not is_whole(logical_block) or not 0 <= logical_block < entries:
        return f"Request {request_id!r} has logical blocks 0 to {entries - 1}, not {logical_block}."
    if not is_whole(block_id) or not 0 <= block_id < num_blocks:
        return f"There is no physical block #{block_id}; the pool has #0 to #{num_blocks - 1}."
    return None
