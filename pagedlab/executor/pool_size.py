"""How many blocks does the pool get? What the knob allows, less what everything else takes."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pagedlab.errors import PagedlabError
from pagedlab.model.config import LlamaConfig

if TYPE_CHECKING:
    from pagedlab.engine.config import EngineConfig

GIB = 1 << 30


@dataclass(frozen=True)
class PoolBudget:
    """Where the card's memory goes, in bytes: ``utilization * card - weights - activations - other`` is the pool's.
    Over several ranks it is of one of them, with its part of the weights and of each block.

    ``num_blocks``: of the pool, the null block included. ``num_cpu_blocks``: of the pool in the CPU's memory, 0 without
    swapping."""

    card: int
    allowed: int
    weights: int
    activations: int
    other: int
    bytes_per_block: int
    num_blocks: int
    measured: bool  # False on a CPU: activations by formula, and the card is a stated amount
    num_cpu_blocks: int = 0

    @property
    def pool(self) -> int:
        return self.num_blocks * self.bytes_per_block


@dataclass(frozen=True)
class MemoryInUse:
    """What is there and what is taken, in bytes, before there is a pool."""

    card: int
    weights: int
    activations: int
    other: int
    measured: bool


def plan_pool(model: LlamaConfig, element: int, used: MemoryInUse, config: EngineConfig) -> PoolBudget:
    """The pool that ``config`` leads to, with ``element`` bytes a number. Raises PagedlabError where not even the null
    block and one more fit, and where the CPU pool would hold none, or more than this machine has memory.

    Source: vLLM ``v1/worker/gpu_worker.py``, ``determine_available_memory``.
    """
    bytes_per_block = block_bytes(model, element, config.block_size)
    allowed = int(config.gpu_memory_utilization * used.card)
    left = allowed - used.weights - used.activations - used.other
    num_blocks = config.num_gpu_blocks_override or max(0, left) // bytes_per_block
    if num_blocks < 2:
        raise PagedlabError(
            f"No room for a KV pool: {config.gpu_memory_utilization:g} of {_mib(used.card)} is {_mib(allowed)}; "
            f"weights take {_mib(used.weights)}, activations {_mib(used.activations)}, others {_mib(used.other)}, and "
            f"two blocks need {_mib(2 * bytes_per_block)}. Raise gpu_memory_utilization or device_memory, lower "
            "max_num_batched_tokens, or set num_gpu_blocks_override."
        )
    num_cpu_blocks = plan_cpu_pool(config, num_blocks, bytes_per_block)
    return PoolBudget(
        used.card, allowed, used.weights, used.activations, used.other, bytes_per_block, num_blocks, used.measured,
        num_cpu_blocks,
    )  # fmt: skip


def block_bytes(model: LlamaConfig, element: int, block_size: int) -> int:
    """Of a block of ``block_size`` tokens: K and V, in all layers of a group."""
    return 2 * model.num_layers_of_a_block * model.num_kv_heads * model.head_size * element * block_size


def plan_cpu_pool(config: EngineConfig, num_blocks: int, bytes_per_block: int) -> int:
    """How many blocks the CPU pool gets, beside a pool of ``num_blocks`` (0 without swapping). Errors as of
    :func:`plan_pool`."""
    if config.preemption != "swap":
        return 0
    if config.num_cpu_blocks_override is not None:
        num_blocks = config.num_cpu_blocks_override
    elif config.swap_space is not None:
        num_blocks = int(config.swap_space * GIB) // bytes_per_block
    most = machine_memory() // bytes_per_block
    if not 1 <= num_blocks <= most:
        raise PagedlabError(
            f"The CPU pool would get {num_blocks:,} blocks of {bytes_per_block:,} bytes; at least 1 is needed, "
            f"and this machine's memory holds {most:,}. Change swap_space (GiB) or num_cpu_blocks_override."
        )
    return num_blocks


def machine_memory() -> int:
    """Bytes of main memory that this machine has."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def activation_peak(model: LlamaConfig, element: int, config: EngineConfig) -> int:
    """Bytes that one step needs at most besides weights and pool, by formula.

    The widest moment of a layer, for ``max_num_batched_tokens`` tokens: the residual and its norm, and the MLP's
    fused gate and up with their product. After the last layer: float32 logits and their softmax for ``max_num_seqs``
    sampled tokens.
    """
    tokens = most_tokens(config)
    layer = tokens * (2 * model.hidden_size + 3 * model.intermediate_size) * element
    logits = 2 * min(config.max_num_seqs, tokens) * model.vocab_size * 4
    return max(layer, logits)


def most_tokens(config: EngineConfig) -> int:
    """Of the largest step that there can be."""
    return min(config.max_num_batched_tokens, config.max_num_seqs * config.max_model_len)


def _mib(num_bytes: int) -> str:
    return f"{num_bytes / (1 << 20):,.0f} MiB"
