"""One function, and a table of back ends: attention of a ragged batch over K and V that lie in blocks."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from pagedlab.attention.backends import BACKENDS, AttentionBackend, backend_for, choose_backend
from pagedlab.attention.checks import can_look, check_inputs, check_options, check_values
from pagedlab.attention.kv_pool import KVPool, LayerKV

__all__ = [
    "BACKENDS",
    "AttentionBackend",
    "KVPool",
    "LayerKV",
    "choose_backend",
    "for_all_layers",
    "paged_attention",
]


def paged_attention(
    query: torch.Tensor,
    kv_pool: LayerKV,
    block_tables: torch.Tensor,
    seq_lens: torch.Tensor,
    query_start_loc: torch.Tensor,
    *,
    scale: float | None = None,
    sliding_window: int | None = None,
    soft_cap: float | None = None,
    backend: str | None = None,
) -> torch.Tensor:
    """Causal attention of packed queries over their requests' paged context.

    query            `[tokens, query heads, head size]`: the new tokens of all requests, one request after the other
    kv_pool          one layer of the pool (`KVPool.layer(i)`); K and V of the new tokens are already written
    block_tables     int32 `[requests, max blocks]`: logical block -> physical block; entries past a request's length
                     may hold anything
    seq_lens         int32 `[requests]`: tokens of context, the new ones included
    query_start_loc  int32 `[requests + 1]`: request r's queries are `query[query_start_loc[r]:query_start_loc[r+1]]`,
                     and they are the *last* tokens of its context
    scale            factor on the scores, above 0 and at most 1e25; 1 / sqrt(head size) by default. Scores are computed
                     in float32: where one overflows all the same, the result is NaN
    sliding_window   a query sees itself and the `sliding_window - 1` tokens before it (Mistral); None: all before it
    soft_cap         scores become `soft_cap * tanh(score / soft_cap)` before the softmax (Gemma 2)
    backend          one of `BACKENDS`: "cpp", "fixed_tiles", "reference", "torch" or "triton"; None goes by the device

    Returns `[tokens, query heads, head size]` in query's dtype. Memory that no token was written to may hold anything,
    NaN included: it is never part of the result. Raises PagedlabError for inputs that cannot be right. On a GPU the
    Triton back end looks at lengths and block ids only when `PAGEDLAB_DEBUG=1` is set, for that would make it wait:
    there the caller answers for them.
    The paper: section 4.1 (PagedAttention); the arguments are those of vLLM's `vllm/v1/attention/backends/`.
    """
    check_inputs(query, kv_pool, block_tables, seq_lens, query_start_loc)
    chosen = backend_for(backend, query.device)
    if scale is None:
        scale = 1.0 / math.sqrt(query.shape[-1])
    scale, sliding_window, soft_cap = check_options(scale, sliding_window, soft_cap)
    if can_look(query.device, chosen):
        check_values(len(query), kv_pool, block_tables, seq_lens, query_start_loc)
    if sliding_window is not None and sliding_window >= block_tables.shape[1] * kv_pool.block_size:
        sliding_window = None  # no context is longer
    places = (block_tables, seq_lens, query_start_loc)
    return chosen.attend(query, kv_pool, *places, scale, sliding_window, soft_cap)


def for_all_layers(
    kv_pool: LayerKV,
    block_tables: torch.Tensor,
    seq_lens: torch.Tensor,
    query_start_loc: torch.Tensor,
    sliding_window: int | None = None,
    *,
    backend: str | None = None,
) -> Callable[[torch.Tensor, LayerKV], torch.Tensor]:
    """`paged_attention` for one step of a model: `attend(query, layer)`, where tables, lengths and the window are the
    same in every layer.

    They are looked at once, at the first layer, instead of in each one; the results are the same. kv_pool: any layer of
    the pool. backend, and errors: as of `paged_attention`.
    """
    places = (block_tables, seq_lens, query_start_loc)
    run: list[Callable[..., torch.Tensor]] = []

    def attend(query: torch.Tensor, layer: LayerKV) -> torch.Tensor:
        if not run:
            chosen = backend_for(backend, query.device)
            check_inputs(query, layer, *places)
            if can_look(query.device, chosen):
                check_values(len(query), layer, *places)
            run.append(chosen.plan(kv_pool, *places, sliding_window))
        return run[0](query, layer, 1.0 / math.sqrt(query.shape[-1]))

    return attend
