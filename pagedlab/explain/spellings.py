"""How vLLM 0.6 to 0.33 spell what they say at a start. A group's name is the figure's; "GB" of older versions is GiB.

The same figure has had up to six spellings. All of them are tried on every line: a log rarely says its version, and
forks for other hardware keep old spellings for long.
"""

from __future__ import annotations

import re

# Figures that are counts; the others may have digits after a point.
WHOLE = {
    "max_model_len", "given_max_model_len", "tensor_parallel", "pipeline_parallel", "data_parallel", "num_blocks",
    "profiled_blocks", "block_size", "attention_block_size", "kv_cache_tokens", "max_num_seqs",
    "max_num_batched_tokens", "suggested_kv_bytes",
}  # fmt: skip
COUNT = r"-?\d{1,15}(?!\d|\.\d)"
NUMBER = r"-?\d{1,9}(?:\.\d{1,9})?(?![\d.]*\d)"  # no 400 digits, no 1.2.3


def _spelled(text: str) -> re.Pattern[str]:
    """``text`` as a pattern: <name> is a number, <name,> one with commas, <name:…> what stands after the colon."""
    text = re.sub(r"<(\w+)>", lambda found: f"(?P<{found[1]}>{COUNT if found[1] in WHOLE else NUMBER})", text)
    text = re.sub(r"<(\w+),>", r"(?P<\1>\\d{1,3}(?:,\\d{3}){1,4}|\\d{1,15})", text)
    return re.compile(re.sub(r"<(\w+):([^<>]+)>", r"(?P<\1>\2)", text))


# What one worker says of its own card.
WORKER = [_spelled(text) for text in (
    # 0.6 on; 0.8 on; "GB" until 0.8.3; "memory" since 0.12
    r"(?:Loading model weights|Model loading) took <weights_gib> ?Gi?B",
    # V0: one line in 0.6.4, a table in between, two sentences since 0.6.5
    r"total_gpu_memory[=\s(]+<total_gib> ?GiB",
    r"\bpeak_torch_memory=<peak_gib>GiB",
    r"\bnon_torch_memory(?:=| takes |\s+)<non_torch_gib>GiB",
    r"\bkv_cache_size=<kv_cache_gib>GiB",
    r"kv_cache_size=\S+ gpu_memory_utilization=<utilization>",
    r"gpu_memory_utilization \(<utilization>\) = <budget_gib>GiB",
    r"^gpu_memory_utilization\s+<utilization>$",
    r"current vLLM instance can use\s+<budget_gib>GiB",
    r"model weights take\s+<profiled_weights_gib>GiB",
    r"PyTorch activation peak memory(?: takes)?\s+<activation_gib>GiB",
    r"rest of the memory reserved for KV Cache is <kv_cache_gib>GiB",
    r"\bavailable_kv_cache_memory[=\s]+<kv_cache_gib>GiB",
    # V1: the pool, since 0.9.2
    r"Available KV cache memory: <kv_cache_gib> GiB",
    r"reserved <kv_cache_gib> GiB memory for KV Cache as specified",
    # V1: at the end of the start since 0.10.2, and in its refusal since 0.9
    r"(?:Free memory on device(?: \S+)?|Available memory on node \d+) \(<free_at_start_gib>/<total_gib> GiB\)",
    r"[CG]PU memory utilization (?:is )?\(<utilization>, <budget_gib> GiB\)",
    r"Actual usage(?: is|:) <profiled_weights_gib> GiB for weights?\b",
    r"Actual usage(?: is|:) <consumed_gib> GiB for consumed memory",
    r"<activation_gib> GiB for peak activation",
    r"<non_torch_gib> GiB for non-torch memory",
    r"<cudagraph_gib> GiB for (?:CUDAGraph|CUDA graph|NPU graph) memory",
    r"Replace gpu_memory_utilization (?:config )?with `--kv-cache-memory=<suggested_kv_bytes>`",
    # V1 with VLLM_LOGGING_LEVEL=DEBUG
    r"Initial free memory:? <free_at_start_gib> GiB",
    r"Requested memory: <utilization> \(util\), <budget_gib> GiB",
    r"requested GPU memory: <budget_gib> GiB",
    r"Peak torch memory: <peak_gib> GiB, non-torch forward-pass memory: <non_torch_gib> GiB, "
    r"available KVCache memory: <kv_cache_gib> GiB",
    r"torch peak memory increase: <activation_gib>GiB; non-torch forward increase memory: <non_torch_gib>GiB",
    # CUDA graphs: 0.6.4 on; measured before the pool since 0.17 on request, always since 0.21
    r"Graph capturing finished in .{1,20}?, took <cudagraph_gib> GiB",
    r"CUDA graph pool memory: <cudagraph_gib> GiB \(actual\), <cudagraph_estimate_gib> GiB \(estimated\)",
    r"Estimated CUDA graph memory: <cudagraph_estimate_gib> GiB total",
    r"current --gpu-memory-utilization=<utilization> is equivalent",
    # CPU
    r"Explicitly set \(<kv_cache_gib>/<total_gib>\) GiB for KV cache",
    r"Auto set \(<kv_cache_gib>/<total_gib>\) GiB for KV cache on node \d+, with <budget_gib> GiB requested memory "
    r"for the worker\. <consumed_gib> GiB memory was consumed",
)]  # fmt: skip

# What an engine says of its pool.
POOL = [_spelled(text) for text in (
    r"\w+ KV cache size: <kv_cache_tokens,> tokens",
    r"Maximum concurrency for <max_model_len,> tokens per request: <max_concurrency>x",
    r"\b(?:GPU|[A-Za-z]+) blocks: <num_blocks,>, # CPU blocks: \d+",
    r"after num_gpu_blocks is: <num_blocks,>",
)]  # fmt: skip
OVERRIDE = _spelled(r"Overriding num_gpu_blocks=<profiled_blocks> with num_gpu_blocks_override=<num_blocks>")

# What holds for all engines of a start.
STARTS = re.compile(r"Initializing an? (?:V[01] )?LLM engine\b")
ARGUMENTS = re.compile(r"non-default args: |\bargs: Namespace\(|vLLM API server version")
CONFIG = [_spelled(text) for text in (
    r"Initializing an? (?:V[01] )?LLM engine \(v<vllm_version:[^)\s]+>\)",
    r"vLLM API server version:? <vllm_version:\d[^\s,]*>",
    r"[▀▄█]\s+version\s+<vllm_version:\d\S*>",
    r"[▀▄█]\s+model\s+<model:\S+>",
    r"Starting to load model <model:\S+?>\.\.\.",
    r"\bdevice_name=<device_name:(?:NVIDIA|AMD)[\w-]+?>(?:,|\.json|\s|$)",
    r"Setting attention block size to <attention_block_size> tokens",
    r"Using max model len <max_model_len>",
    r"Auto-fit max_model_len: reduced from \d+ to <max_model_len>\b",
    r"Auto-fit max_model_len: full model context length <max_model_len>\b",
    r"Add \d+ padding layers, may waste at most <padding_layers_pct>%",
)]  # fmt: skip


def _option(name: str, value: str) -> list[re.Pattern[str]]:
    """An option as a dict, a Namespace or a configuration is printed: 'name': value, name=value."""
    return [_spelled(rf"'{name}': {value}"), _spelled(rf"(?<![\w.-]){name}={value}")]


# The options, in records that STARTS or ARGUMENTS fits.
OPTIONS = [pattern for name, value in (
    ("model", "'<model:[^']+>'"), ("model_tag", "'<model:[^']+>'"),
    ("max_seq_len", r"<max_model_len>\b"), ("max_model_len", r"<given_max_model_len>\b"),
    ("tensor_parallel_size", r"<tensor_parallel>\b"), ("pipeline_parallel_size", r"<pipeline_parallel>\b"),
    ("data_parallel_size", r"<data_parallel>\b"), ("device_config", r"<device:[a-z]+>(?![\w(])"),
    ("kv_cache_dtype", r"'?<kv_cache_dtype:[\w.]+>"), ("enforce_eager", r"<enforce_eager:True|False>\b"),
    ("block_size", r"<block_size>\b"), ("gpu_memory_utilization", r"<given_utilization>(?![\w.])"),
    ("max_num_seqs", r"<max_num_seqs>\b"), ("max_num_batched_tokens", r"<max_num_batched_tokens>\b"),
) for pattern in _option(name, value)]  # fmt: skip
GROUPS = re.compile(r"Setting attention block size to|padding layers, may waste|kv cache group sizes \(\d+, \d")
GRAPHS_ARE_IN = re.compile(r"CUDA graph memory profiling is enabled|for consumed memory \(weights")
GRAPHS_ARE_OUT = re.compile(r"CUDA graph memory profiling is disabled")
IS_V0 = re.compile(r"# (?:GPU|CUDA|cuda|rocm|CPU) blocks: \d+, # CPU|Swapped: \d+ reqs")

# A quick look: a record without one of these words says nothing about memory.
WORDS = (
    "KV", "GiB", "MiB", "blocks", "LLM engine", "args:", "version", "Avg prompt", "Maximum concurrency", "weights took",
    "loading took", "out of memory", "OutOfMemory", "memory profiling", "max seq len", "cache blocks", "max model len",
    "max_model_len", "preempt", "hit rate", "load model", "device_name", "padding layers", "attention block size",
    "gpu_memory_utilization", "failed to start", "initialization failed", "group sizes", "  model  ", "Error: ",
)  # fmt: skip
