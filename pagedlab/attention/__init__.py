"""One function, three back ends: attention of a ragged batch over K and V that lie in blocks.

reference   what attention *is*, in float64, one request at a time: slow, and plainly right
torch       the quick one on a CPU
triton      the kernels of `kernels/`: the quick one on a GPU (and, under TRITON_INTERPRET=1, on a CPU, slowly)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from importlib.util import find_spec

import torch

from pagedlab.attention.kv_pool import KVPool, LayerKV
from pagedlab.errors import PagedlabError

BACKENDS = ("reference", "torch", "triton")

__all__ = ["BACKENDS", "KVPool", "LayerKV", "choose_backend", "for_all_layers", "paged_attention"]


def choose_backend(backend: str | None, device: torch.device) -> str:
    """The back end for this device, or the one that was asked for. Raises PagedlabError for an unknown name, and for
    "triton" where there is none."""
    if backend is None:
        # Triton exists on Linux only.
        return "triton" if device.type == "cuda" and find_spec("triton") else "torch"
    if backend not in BACKENDS:
        raise PagedlabError(
            f"Unknown attention backend {backend!r}; allowed are {', '.join(BACKENDS)}, or None to choose by device."
        )
    if backend == "triton" and not find_spec("triton"):
        from pagedlab.kernels import WHY_NOT

        raise PagedlabError(f"The Triton back end cannot run: {WHY_NOT}. Use backend='torch'.")
    return backend


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
    scale            factor on the scores, above 0; 1 / sqrt(head size) by default
    sliding_window   a query sees itself and the `sliding_window - 1` tokens before it (Mistral); None: all before it
    soft_cap         scores become `soft_cap * tanh(score / soft_cap)` before the softmax (Gemma 2)
    backend          "reference", "torch" or "triton"; None chooses by device

    Returns `[tokens, query heads, head size]` in query's dtype. Memory that no token was written to may hold anything,
    NaN included: it is never part of the result. Raises PagedlabError for inputs that cannot be right. On a GPU the
    Triton back end looks at lengths and block ids only when `PAGEDLAB_DEBUG=1` is set, for that would make it wait:
    there the caller answers for them.
    The paper: section 4.1 (PagedAttention); the arguments are those of vLLM's `vllm/v1/attention/backends/`.
    """
    from pagedlab.attention.checks import can_look, check_inputs, check_options, check_values

    check_inputs(query, kv_pool, block_tables, seq_lens, query_start_loc)
    chosen = choose_backend(backend, query.device)
    if scale is None:
        scale = 1.0 / math.sqrt(query.shape[-1])
    scale, sliding_window, soft_cap = check_options(scale, sliding_window, soft_cap)
    if can_look(query.device, chosen):
        check_values(len(query), kv_pool, block_tables, seq_lens, query_start_loc)
    if sliding_window is not None and sliding_window >= block_tables.shape[1] * kv_pool.block_size:
        sliding_window = None  # no context is longer
    if chosen == "reference":
        from pagedlab.attention.reference import attention
    elif chosen == "torch":
        from pagedlab.attention.torch_backend import attention
    else:
        from pagedlab.kernels.run import attention
    return attention(query, kv_pool, block_tables, seq_lens, query_start_loc, scale, sliding_window, soft_cap)


def for_all_layers(
    kv_pool: LayerKV, block_tables: torch.Tensor, seq_lens: torch.Tensor, query_start_loc: torch.Tensor
) -> Callable[[torch.Tensor, LayerKV], torch.Tensor]:
    """`paged_attention` for one step of a model: `attend(query, layer)`, where tables and lengths are the same in every
    layer.

    They are looked at once, at the first layer, instead of in each one; the results are the same. kv_pool: any layer of
    the pool. Errors as of `paged_attention`.
    """
    from pagedlab.attention.checks import can_look, check_inputs, check_values

    places = (block_tables, seq_lens, query_start_loc)
    run: list[Callable[..., torch.Tensor]] = []

    def attend(query: torch.Tensor, layer: LayerKV) -> torch.Tensor:
        if not run:
            chosen = choose_backend(None, query.device)
            check_inputs(query, layer, *places)
            if can_look(query.device, chosen):
                check_values(len(query), layer, *places)
            run.append(_for_a_step(chosen, kv_pool, places))
        return run[0](query, layer, 1.0 / math.sqrt(query.shape[-1]))

    return attend


def _for_a_step(chosen: str, kv_pool: LayerKV, places: tuple[torch.Tensor, ...]) -> Callable[..., torch.Tensor]:
    """`run(query, layer, scale)`."""
    if chosen == "torch":
        from pagedlab.attention.torch_backend import Plan

        return Plan(kv_pool, *places).run
    from pagedlab.kernels.run import attention

    return lambda query, layer, scale: attention(query, layer, *places, scale)
