from __future__ import annotations

import pytest

from pagedlab.engine import LLM


@pytest.fixture(scope="session")
def tiny() -> LLM:
    """One tiny model whose weights all engine tests share (`LLM(tiny, ...)`)."""
    return LLM("tiny-random", num_gpu_blocks_override=64, block_size=4)


@pytest.fixture
def ends_at_a(tiny):
    """"A" is the end of text, as any token may be; it is no special one."""
    before, tiny.tokenizer.eos_token_ids = tiny.tokenizer.eos_token_ids, {ord("A")}
    yield
    tiny.tokenizer.eos_token_ids = before
