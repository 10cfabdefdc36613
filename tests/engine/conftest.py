from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from pagedlab.engine import LLM


@pytest.fixture(scope="session")
def tiny() -> LLM:
    """One tiny model whose weights all engine tests share (`LLM(tiny, ...)`)."""
    return LLM("tiny-random", num_gpu_blocks_override=64, block_size=4)


def contiguous_logits(model, token_ids: list[int]) -> torch.Tensor:
    """Logits [tokens, vocabulary] of one sequence, without pages, without a cache: what every paged run must equal."""

    def attend(layer, query, key, value):
        q, k, v = (x.transpose(0, 1)[None] for x in (query, key, value))
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)[0].transpose(0, 1)

    with torch.inference_mode():
        return model.logits(model(torch.tensor(token_ids), torch.arange(len(token_ids)), attend))


def contiguous_greedy(model, prompt: list[int], max_tokens: int) -> list[int]:
    ids = list(prompt)
    for _ in range(max_tokens):
        ids.append(int(contiguous_logits(model, ids)[-1].argmax()))
    return ids[len(prompt) :]
