"""How many blocks does the pool get? What the knob allows, less what everything else takes."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import torch

from pagedlab.engine.config import GIB, EngineConfig
from pagedlab.errors import PagedlabError


@dataclass(frozen=True)
class PoolBudget:
    """Where the card's memory goes, in bytes: ``utilization * card - weights - activations - other`` is the pool's."""

    card: int
    allowed: int
    weights: int
    activations: int
    other: int
    bytes_per_block: int
    num_blocks: int
    measured: bool  # False on a CPU: activations by formula, and the card is a stated amount

    @property
    def pool(self) -> int:
        return self.num_blocks * self.bytes_per_block


def plan_pool(model: Any, config: EngineConfig, max_model_len: int) -> PoolBudget:
    """The pool that ``config`` leads to. Raises PagedlabError where not even the null block and one more fit.

    Source: vLLM ``v1/worker/gpu_worker.py``, ``determine_available_memory``.
    """
    c = model.config
    element = torch.empty(0, dtype=model.dtype).element_size()
    bytes_per_block = 2 * c.num_layers * c.num_kv_heads * c.head_size * element * config.block_size
    measured = model.device.type == "cuda"
    if measured:
        card, activations, other = _measure_on_cuda(model, config, max_model_len)
    else:
        card, activations, other = config.device_memory, activation_peak(model, config, max_model_len), 0
    allowed = int(config.gpu_memory_utilization * card)
    left = allowed - model.num_bytes - activations - other
    num_blocks = config.num_gpu_blocks_override or max(0, left) // bytes_per_block
    if num_blocks < 2:
        raise PagedlabError(
            f"No room for a KV pool: {config.gpu_memory_utilization:g} of {_mib(card)} is {_mib(allowed)}; weights "
            f"take {_mib(model.num_bytes)}, activations {_mib(activations)}, others {_mib(other)}, and two blocks need "
            f"{_mib(2 * bytes_per_block)}. Raise gpu_memory_utilization or device_memory, lower "
            "max_num_batched_tokens, or set num_gpu_blocks_override."
        )
    return PoolBudget(card, allowed, model.num_bytes, activations, other, bytes_per_block, num_blocks, measured)


def plan_cpu_pool(config: EngineConfig, budget: PoolBudget) -> int:
    """How many blocks the CPU pool gets (0 without swapping). Raises PagedlabError where ``swap_space`` holds not
    one, or more than this machine has memory."""
    if config.preemption != "swap":
        return 0
    num_blocks = budget.num_blocks
    if config.num_cpu_blocks_override is not None:
        num_blocks = config.num_cpu_blocks_override
    elif config.swap_space is not None:
        num_blocks = int(config.swap_space * GIB) // budget.bytes_per_block
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if not 1 <= num_blocks <= memory // budget.bytes_per_block:
        raise PagedlabError(
            f"The CPU pool would get {num_blocks:,} blocks of {budget.bytes_per_block:,} bytes; at least 1 is needed, "
            f"and this machine's memory holds {memory // budget.bytes_per_block:,}. Change swap_space (GiB) or "
            "num_cpu_blocks_override."
        )
    return num_blocks


def activation_peak(model: Any, config: EngineConfig, max_model_len: int) -> int:
    """Bytes that one step needs at most besides weights and pool, by formula.

    The widest moment of a layer, for ``max_num_batched_tokens`` tokens: the residual and its norm, and the MLP's
    fused gate and up with their product. After the last layer: float32 logits and their softmax for ``max_num_seqs``
    sampled tokens.
    """
    c = model.config
    element = torch.empty(0, dtype=model.dtype).element_size()
    tokens = min(config.max_num_batched_tokens, config.max_num_seqs * max_model_len)
    layer = tokens * (2 * c.hidden_size + 3 * c.intermediate_size) * element
    logits = 2 * min(config.max_num_seqs, tokens) * c.vocab_size * 4
    return max(layer, logits)


def _measure_on_cuda(model: Any, config: EngineConfig, max_model_len: int) -> tuple[int, int, int]:
    """(card, activation peak, what others and the driver hold), after one real forward pass of the largest step."""
    device = model.device
    torch.cuda.synchronize(device)
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    tokens = min(config.max_num_batched_tokens, config.max_num_seqs * max_model_len)
    with torch.inference_mode():
        ids = torch.zeros(tokens, dtype=torch.int64, device=device)
        positions = torch.arange(tokens, device=device) % max_model_len
        # Attention itself needs no memory that grows with the context; the query stands in for its output.
        hidden = model(ids, positions, lambda layer, query, key, value: query.clone())
        model.logits(hidden[: config.max_num_seqs]).softmax(-1)
    torch.cuda.synchronize(device)
    activations = torch.cuda.max_memory_allocated(device) - before
    torch.cuda.empty_cache()
    free, total = torch.cuda.mem_get_info(device)
    return total, activations, max(0, total - free - torch.cuda.memory_allocated(device))


def _mib(num_bytes: int) -> str:
    return f"{num_bytes / (1 << 20):,.0f} MiB"
