"""The other side: vLLM's own manager and scheduler, made from an installed vLLM. No GPU and no model file is needed.

Everything that pagedlab knows of vLLM's constructors stands in this file; written against v0.32.0.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from pagedlab.errors import PagedlabError

NO_LIMIT = 1 << 40

# What a ModelConfig wants to see: the shape of any Llama. No weights are read.
LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 1,
    "num_key_value_heads": 1,
    "vocab_size": 1000,
    "torch_dtype": "float32",
}


def installed_version() -> str:
    """vLLM's version. Raises PagedlabError where vLLM is not installed or does not import."""
    try:
        number = version("vllm")
        # The recordings are of model runner V1; V2 reports resumed requests as new ones.
        os.environ["VLLM_USE_V2_MODEL_RUNNER"] = "0"
        import vllm.v1.core.kv_cache_manager  # noqa: F401
        import vllm.v1.core.sched.scheduler  # noqa: F401
    except PackageNotFoundError:
        raise PagedlabError(
            "vLLM is not installed here, so nothing can be recorded or measured from it. Install it (pip install vllm) "
            "in an environment of its own and run this there; comparing recordings needs no vLLM."
        ) from None
    except Exception as error:
        raise PagedlabError(
            f"vLLM is installed but cannot be imported ({type(error).__name__}: {error}). Repair it and try again."
        ) from error
    return number


def request_maker(block_size: int, enable_caching: bool) -> Callable[[str, list[int], Any], Any]:
    """A function that makes vLLM requests from id, tokens and :func:`sampling_params`; SHA-256, as by default."""
    from vllm.utils.hashing import sha256
    from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
    from vllm.v1.request import Request

    init_none_hash(sha256)
    hasher = get_request_block_hasher(block_size, sha256) if enable_caching else None
    return lambda request_id, tokens, params: Request(request_id, tokens, params, None, block_hasher=hasher)


def sampling_params(max_tokens: int) -> Any:
    """vLLM's SamplingParams; end-of-sequence is ignored."""
    from vllm.sampling_params import SamplingParams

    return SamplingParams(max_tokens=max_tokens, ignore_eos=True)


def make_manager(num_blocks: int, block_size: int, enable_caching: bool, events: bool = False) -> Any:
    """vLLM's KVCacheManager with one full-attention group; with ``events`` it gathers KV events."""
    from vllm.v1.core.kv_cache_manager import KVCacheManager

    return KVCacheManager(
        _kv_cache_config(num_blocks, block_size),
        max_model_len=NO_LIMIT,
        scheduler_block_size=block_size,
        hash_block_size=block_size,
        enable_caching=enable_caching,
        enable_kv_cache_events=events,
    )


def encode_events(events: list[Any], timestamp: float) -> bytes:
    """The payload that vLLM's publisher would send for these events."""
    import msgspec
    from vllm.distributed.kv_events import KVEventBatch

    return msgspec.msgpack.encode(KVEventBatch(ts=timestamp, events=events, data_parallel_rank=0))


def make_scheduler(header: dict[str, Any]) -> Any:
    """vLLM's V1 Scheduler, synchronous, with the knobs of a recording's header; else its defaults."""
    from vllm.config import CacheConfig, DeviceConfig, ModelConfig, SchedulerConfig, VllmConfig
    from vllm.v1.core.sched.scheduler import Scheduler
    from vllm.v1.structured_output import StructuredOutputManager

    max_model_len, block_size = header["max_model_len"], header["block_size"]
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(json.dumps(LLAMA | {"max_position_embeddings": max_model_len}))
        model_config = ModelConfig(model=folder, skip_tokenizer_init=True, max_model_len=max_model_len, dtype="float32")
    scheduler_config = SchedulerConfig(
        max_model_len=max_model_len,
        is_encoder_decoder=False,
        async_scheduling=False,
        max_num_seqs=header["max_num_seqs"],
        max_num_batched_tokens=header["max_num_batched_tokens"],
    )
    cache_config = CacheConfig(block_size=block_size, enable_prefix_caching=header["enable_caching"])
    config = VllmConfig(
        model_config=model_config,
        scheduler_config=scheduler_config,
        cache_config=cache_config,
        device_config=DeviceConfig(device="cpu"),
    )
    cache_config.num_gpu_blocks = header["num_blocks"]
    return Scheduler(
        config,
        _kv_cache_config(header["num_blocks"], block_size),
        StructuredOutputManager(config),
        block_size=block_size,
    )


def model_output(sampled: dict[str, int | None]) -> Any:
    """What a model runner hands back: each scheduled request's token, or None where its prompt is not computed to
    its end."""
    from vllm.v1.outputs import ModelRunnerOutput

    return ModelRunnerOutput(
        req_ids=list(sampled),
        req_id_to_index={request_id: i for i, request_id in enumerate(sampled)},
        sampled_token_ids=[[] if token is None else [token] for token in sampled.values()],
    )


def free_and_cached(block_pool: Any) -> tuple[list[int], list[int]]:
    """The free queue, head first, and the ids of the blocks that carry a hash."""
    free = [block.block_id for block in block_pool.free_block_queue.get_all_free_blocks()]
    return free, [block.block_id for block in block_pool.blocks if block.block_hash is not None]


def _kv_cache_config(num_blocks: int, block_size: int) -> Any:
    import torch
    from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec

    spec = FullAttentionSpec(block_size=block_size, num_kv_heads=1, head_size=64, dtype=torch.float32)
    group = KVCacheGroupSpec(["layer"], spec)
    return KVCacheConfig(num_blocks=num_blocks, kv_cache_tensors=[], kv_cache_groups=[group])
