from __future__ import annotations

import pytest

from pagedlab.engine import LLM


@pytest.fixture(scope="session")
def tiny() -> LLM:
    """One tiny model whose weights all engine tests share (`LLM(tiny, ...)`)."""
    return LLM("tiny-random", num_gpu_blocks_override=64, block_size=4)
