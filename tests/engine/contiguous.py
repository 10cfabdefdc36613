"""The same model without pages and without a cache: what every paged run must equal."""

from __future__ import annotations

import torch
import torch.nn.functional as F


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
