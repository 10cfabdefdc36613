"""vLLM for our benchmarks: an engine in this process, on weights that ours has too."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from pagedlab.errors import PagedlabError
from pagedlab.model.export import exported

# Its engine in one process, so that nothing is left over when that ends; nothing fetched, nothing told to anybody.
QUIET = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
    "VLLM_LOGGING_LEVEL": "ERROR",
}


def weights(model: str) -> Path:
    """The folder that vLLM loads: a Hugging Face folder as it is, any other model of ours exported in fp32."""
    return Path(model) if Path(model).is_dir() else exported(model)


def engine(folder: Path, *, gib: int = 1, **settings: Any) -> Any:
    """A ``vllm.LLM`` in fp32 with ``gib`` GiB for K and V. What the environment sets already stays, but for the first
    three of QUIET. PagedlabError where vLLM is not installed."""
    os.environ |= QUIET | {"VLLM_LOGGING_LEVEL": os.environ.get("VLLM_LOGGING_LEVEL", QUIET["VLLM_LOGGING_LEVEL"])}
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", str(gib))
    try:
        import vllm
    except ImportError:
        raise PagedlabError(
            "vLLM is not in this environment. Run `make vllm`, then this with `.venv-vllm/bin/python -m pagedlab`."
        ) from None
    return vllm.LLM(str(folder), dtype="float32", seed=0, **settings)
