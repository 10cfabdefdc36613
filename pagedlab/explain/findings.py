"""What a log says, as numbers. None: it does not say."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

NO_KV_MEMORY = "no_kv_memory"
POOL_TOO_SMALL = "pool_smaller_than_max_model_len"
MEMORY_TAKEN = "device_memory_taken"
OUT_OF_MEMORY = "out_of_memory"
PROFILING_GREW = "profiling_memory_grew"

# When memory ran out.
LOADING = "while the weights were loaded"
PROFILING = "in the profiling run, before the pool was made"
WARMING_UP = "while the sampler was warmed up"
CAPTURING = "after the pool was made, in the warm-up or while CUDA graphs were captured"
SERVING = "while requests were served"


@dataclass
class Failure:
    """Why the engine stopped: one of the five kinds above, and the figures of its message."""

    kind: str
    detail: dict[str, Any] | None  # None: the message has no figures
    message: str = ""  # as logged, on one line
    phase: str = ""  # of OUT_OF_MEMORY: one of the five above


@dataclass
class Line:
    """One periodic line: requests, percent, and what is printed only sometimes."""

    engine: str
    running: int
    waiting: int
    usage_pct: float | None
    hit_pct: float | None
    swapped: int = 0
    preemptions: int | None = None  # since the line before


@dataclass
class Runtime:
    """What the periodic lines say, all engines together."""

    lines: int = 0
    max_running: int | None = None
    max_waiting: int | None = None
    peak_kv_usage_pct: float | None = None
    last_prefix_hit_pct: float | None = None
    preemptions_printed: int | None = None
    preempted: bool = False
    signs: list[str] = field(default_factory=list)  # of requests that were put back, in words
    num_signs: int = 0
    usages: list[float] = field(default_factory=list)  # the first of them
    engines: set[str] = field(default_factory=set)


@dataclass
class Findings:
    """The last start in a log. GiB are of one GPU (of the worker with the smallest pool), counts of one engine."""

    source: str | None = None
    context: dict[str, str | None] | None = None

    vllm_version: str | None = None
    device: str | None = None
    model: str | None = None
    tensor_parallel: int | None = None
    pipeline_parallel: int | None = None
    data_parallel: int | None = None
    max_model_len: int | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    kv_cache_dtype: str | None = None
    enforce_eager: bool | None = None

    total_gib: float | None = None
    free_at_start_gib: float | None = None
    utilization: float | None = None
    budget_gib: float | None = None
    weights_gib: float | None = None
    non_torch_gib: float | None = None
    consumed_gib: float | None = None  # weights and non-torch, where vLLM prints them as one
    activation_gib: float | None = None
    peak_gib: float | None = None  # the peak of torch, weights in it
    cudagraph_gib: float | None = None
    cudagraph_estimate_gib: float | None = None
    graphs_in_activation: bool = False  # is the estimate inside activation_gib?
    suggested_kv_bytes: int | None = None  # what vLLM says --kv-cache-memory could be
    kv_cache_gib: float | None = None
    profiled_kv_gib: float | None = None  # what profiling left, where an override then decided the pool

    kv_cache_tokens: int | None = None
    num_blocks: int | None = None
    profiled_blocks: int | None = None  # before num_gpu_blocks_override
    block_size: int | None = None
    max_concurrency: float | None = None

    failure: Failure | None = None
    runtime: Runtime | None = None

    is_v0: bool = False  # the engine before V1: no null block
    has_groups: bool = False  # several KV cache groups, as the log shows
    padding_layers_pct: float | None = None
    num_starts: int = 0
    num_workers: int = 0
    worker_kv_gib: list[float] = field(default_factory=list)  # of each worker that printed it, smallest first
    pipeline_workers: bool = False
    engines: list[str] = field(default_factory=list)  # data-parallel engines that printed a pool
    pools: list[int] = field(default_factory=list)  # tokens of each of them
    stopped: str | None = None  # a stop of another kind, as logged
