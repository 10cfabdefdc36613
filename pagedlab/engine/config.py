"""The engine's knobs, with vLLM's names and the defaults that its v0.32.0 ``LLM`` class has on a card under 70 GiB."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from pagedlab.errors import PagedlabError, is_real, is_whole, whole
from pagedlab.executor.pool_size import GIB


@dataclass
class EngineConfig:
    """All knobs. Raises PagedlabError for values that make no sense.

    gpu_memory_utilization: the share of the card that this engine may use for weights, activations and KV pool
    together.
    device_memory: how many bytes the "card" has when the engine runs on a CPU (on a GPU the card is asked).
    num_gpu_blocks_override: the pool's size in blocks, the null block included; beats both.
    max_model_len: longest request in tokens, prompt and output together (None: the model's own limit).
    enable_chunked_prefill: a prompt may be computed in pieces, of what is left of each step's max_num_batched_tokens.
    False: a request comes in only where a step has room for all its tokens, so max_num_batched_tokens must be at least
    max_model_len. (Never in the paper's era.)
    era: "v1" (what vLLM runs), or "paper" (fork, copy-on-write and swap, as in vLLM v0.2.0; no prefix cache, no chunked
    prefill, no null block).
    preemption: what happens to a victim's blocks when memory runs out: "recompute" or, in the paper's era, "swap".
    swap_space: GiB of the CPU's memory for swapped blocks (None: as much as the pool itself has). Only with "swap".
    num_cpu_blocks_override: the same in blocks; beats it.
    async_scheduling: plan each step before the tokens of the one before are waited for, as vLLM does by default except
    on CPUs. Where the model runs on the CPU, as the plan does, it gains no time; memory changes as on a GPU. Not in the
    paper's era.
    prefix_cache_retention_interval: where layers look back only so far, at which multiples of tokens their blocks can
    be found again (0: only where a prompt ends, or a start that prompts share; None: everywhere). A multiple of
    block_size.
    tensor_parallel_size: over how many processes the model is split, each with some of the heads, of the weights and of
    every block of the pool (None: as the weights lie that it shares, else 1). Each has a card of its own, so
    device_memory is of one.
    batch_invariant: give a request the same logits, bit for bit, alone and in any batch, cold and from the cache, in
    chunks and after a preemption, on one machine with one number of threads. Slower; not on every executor.
    """

    block_size: int = 16
    gpu_memory_utilization: float = 0.92
    device_memory: int = 2 * GIB
    num_gpu_blocks_override: int | None = None
    enable_prefix_caching: bool = True
    max_num_seqs: int = 256
    max_num_batched_tokens: int = 8192
    max_model_len: int | None = None
    seed: int = 0
    era: str = "v1"
    preemption: str = "recompute"
    swap_space: float | None = None
    num_cpu_blocks_override: int | None = None
    async_scheduling: bool = False
    prefix_cache_retention_interval: int | None = 0
    batch_invariant: bool = False
    enable_chunked_prefill: bool = True
    tensor_parallel_size: int | None = None

    def __post_init__(self) -> None:
        for name in ("block_size", "device_memory", "max_num_seqs", "max_num_batched_tokens"):
            self._check_count(name, 1)
        if self.max_model_len is not None:
            self._check_count("max_model_len", 2)
        if self.tensor_parallel_size is not None:
            self._check_count("tensor_parallel_size", 1)
        if self.num_gpu_blocks_override is not None:
            self._check_count("num_gpu_blocks_override", 2)
        if self.prefix_cache_retention_interval is not None:
            self._check_count("prefix_cache_retention_interval", 0)
            if self.prefix_cache_retention_interval % self.block_size:
                raise PagedlabError(
                    f"prefix_cache_retention_interval is {self.prefix_cache_retention_interval}; it must be None or a "
                    f"multiple of block_size={self.block_size}."
                )
        if not is_whole(self.seed) or not -(1 << 63) <= int(self.seed) < 1 << 63:
            raise PagedlabError(f"seed is {self.seed!r}; it must be a whole number of at most 63 bits.")
        self.seed = int(self.seed)
        for name in ("enable_prefix_caching", "async_scheduling", "enable_chunked_prefill", "batch_invariant"):
            if not isinstance(getattr(self, name), bool):
                raise PagedlabError(f"{name} is {getattr(self, name)!r}; it must be True or False.")
        share = self.gpu_memory_utilization
        if not is_real(share) or not 0 < share <= 1:
            raise PagedlabError(
                f"gpu_memory_utilization is {share!r}; it is a share of the card: "
                "above 0, at most 1."
            )
        self.gpu_memory_utilization = float(share)
        self._check_era()

    def _check_era(self) -> None:
        if self.era not in ("v1", "paper"):
            raise PagedlabError(f'era is {self.era!r}; allowed are "v1" and "paper".')
        if self.preemption not in ("recompute", "swap"):
            raise PagedlabError(f'preemption is {self.preemption!r}; allowed are "recompute" and "swap".')
        if self.era == "paper":
            self.enable_prefix_caching = False  # nobody found blocks by their content then
            self.enable_chunked_prefill = False
            if self.async_scheduling:
                raise PagedlabError('async_scheduling=True needs era="v1": the paper\'s era knew no such thing.')
        elif self.preemption == "swap":
            raise PagedlabError('preemption="swap" needs era="paper": V1 recomputes, it has no swap.')
        if self.swap_space is not None:
            if not is_real(self.swap_space) or not 0 <= self.swap_space < float("inf"):
                raise PagedlabError(f"swap_space is {self.swap_space!r}; it must be a number of GiB, 0 or more.")
            self.swap_space = float(self.swap_space)
        if self.num_cpu_blocks_override is not None:
            self._check_count("num_cpu_blocks_override", 0)
        if self.preemption == "swap" and 0 in (self.swap_space, self.num_cpu_blocks_override):
            name = "num_cpu_blocks_override" if self.num_cpu_blocks_override == 0 else "swap_space"
            raise PagedlabError(
                f'{name} is 0, so there is nowhere to swap to. Give it more, or take preemption="recompute".'
            )

    def _check_count(self, name: str, least: int) -> None:
        value = whole(getattr(self, name), name, least)
        if value >= 1 << 53:
            raise PagedlabError(f"{name} is {value}; no memory holds as many. Give less.")
        setattr(self, name, value)  # numpy's numbers become plain ones, which a trace's file can hold


def config_of(knobs: dict[str, Any], *, record: Any = False) -> EngineConfig:
    """Raises PagedlabError for a name that is no knob, and for a ``record`` that is not a bool."""
    if not isinstance(record, bool):
        raise PagedlabError(f"record is {record!r}; it must be True (keep every event) or False.")
    allowed = [field.name for field in fields(EngineConfig)]
    unknown = [name for name in knobs if name not in allowed]
    if unknown:
        raise PagedlabError(f"Unknown knob {', '.join(unknown)}. Knobs are: {', '.join(allowed)}.")
    return EngineConfig(**knobs)
