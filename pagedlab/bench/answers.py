"""Are the answers of two engines the same, but for near ties?"""

from __future__ import annotations

import torch
import torch.nn.functional as F

from pagedlab.model.llama import LlamaModel
from pagedlab.parity.near_ties import is_near_tie


def other_tokens(
    model: LlamaModel, prompts: list[list[int]], ours: list[list[int]], theirs: list[list[int]]
) -> tuple[int, int]:
    """How many answers are not the same; and of these how many part where our logits are no near tie. (Behind its first
    other token an answer goes its own way: there is nothing to compare.)"""
    unlike = wrong = 0
    for prompt, mine, other in zip(prompts, ours, theirs, strict=True):
        if mine != other:
            unlike += 1
            pairs = zip(mine, other, strict=False)
            at = next((i for i, (a, b) in enumerate(pairs) if a != b), None)  # None: one is longer
            wrong += at is None or not is_near_tie(logits_after(model, prompt + mine[:at]), mine[at], other[at])
    return unlike, wrong


def logits_after(model: LlamaModel, token_ids: list[int]) -> torch.Tensor:
    """Float32 [vocabulary], of the token that comes next; one pass over all of them, without a pool."""
    return model.logits(hidden_after(model, token_ids)[None])[0]


def hidden_after(model: LlamaModel, token_ids: list[int]) -> torch.Tensor:
    """[hidden size] behind the last token, normalised: what the rows of ``model.head`` are multiplied with."""

    def attend(layer: int, *heads: torch.Tensor) -> torch.Tensor:
        query, key, value = (of.transpose(0, 1)[None] for of in heads)
        return F.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)[0].transpose(0, 1)

    return model(torch.tensor(token_ids), torch.arange(len(token_ids)), attend)[-1]
