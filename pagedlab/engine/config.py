"""The engine's knobs, with vLLM's names and the defaults of its v0.32.0 ``LLM`` class."""

from __future__ import annotations

from dataclasses import dataclass

from pagedlab.errors import PagedlabError

GIB = 1 << 30


@dataclass
class EngineConfig:
    """All knobs. Raises PagedlabError for values that make no sense.

    gpu_memory_utilization: the share of the card that this engine may use for weights, activations and KV pool
    together.
    device_memory: how many bytes the "card" has when the engine runs on a CPU (on a GPU the card is asked).
    num_gpu_blocks_override: the pool's size in blocks, the null block included; beats both.
    max_model_len: longest request in tokens, prompt and output together (None: the model's own limit).
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

    def __post_init__(self) -> None:
        for name in ("block_size", "device_memory", "max_num_seqs", "max_num_batched_tokens"):
            self._check_count(name, 1)
        if self.max_model_len is not None:
            self._check_count("max_model_len", 2)
        if self.num_gpu_blocks_override is not None:
            self._check_count("num_gpu_blocks_override", 2)
        if not 0 < self.gpu_memory_utilization <= 1:
            raise PagedlabError(
                f"gpu_memory_utilization is {self.gpu_memory_utilization}; it is a share of the card: "
                "above 0, at most 1."
            )

    def _check_count(self, name: str, least: int) -> None:
        value = getattr(self, name)
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise PagedlabError(f"{name} is {value!r}; it must be a whole number of at least {least}.")
