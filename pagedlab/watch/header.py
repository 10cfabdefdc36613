"""A trace's header, from a live vLLM."""

from __future__ import annotations

import datetime
from pathlib import PurePath
from typing import Any

from pagedlab import __version__
from pagedlab.trace.events import SCHEMA_VERSION


def header(scheduler: Any) -> dict[str, Any]:
    """What a badge, a lab and a reader of the trace want to know of the engine behind it."""
    import torch
    import vllm

    config, pool = scheduler.vllm_config, scheduler.kv_cache_manager.block_pool
    model, limits = config.model_config, config.scheduler_config
    parallel, shape = config.parallel_config, model.hf_text_config
    return {
        "schema": SCHEMA_VERSION,
        "pagedlab": __version__,
        "torch": str(torch.__version__),
        "triton": None,
        "engine": f"vLLM {vllm.__version__}",
        "async_scheduling": bool(limits.async_scheduling),
        "device": _device(config.device_config),
        "compute_capability": None,
        "dtype": str(model.dtype).removeprefix("torch."),
        "model": PurePath(model.served_model_name or model.model).name,
        "model_shape": {
            "num_layers": model.get_num_layers(parallel),
            "num_query_heads": shape.num_attention_heads,
            "num_kv_heads": model.get_total_num_kv_heads(),
            "head_size": model.get_head_size(),
            "bytes_per_element": model.dtype.itemsize,
        },
        "seed": model.seed,
        "live": True,
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "config": {
            "num_blocks": pool.num_gpu_blocks,
            "block_size": scheduler.kv_cache_manager.coordinator.single_type_managers[0].block_size,
            "era": "v1",
            "enable_prefix_caching": bool(pool.enable_caching),
            "max_num_seqs": limits.max_num_seqs,
            "max_num_batched_tokens": limits.max_num_batched_tokens,
            "max_model_len": model.max_model_len,
        },
    }


def _device(config: Any) -> str:
    """The card's own name, where torch knows it."""
    import torch

    kind = str(config.device_type)  # ``device`` is None where the platform handles it
    return torch.cuda.get_device_name(config.device) if kind == "cuda" else kind.upper()
