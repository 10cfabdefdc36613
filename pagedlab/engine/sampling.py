"""From logits to a token.

Randomness belongs to a request: its seed and the token's position decide the draw, and nothing else does. So a run
can be replayed, branched and undone, and a request gives the same answer alone, in a batch, and after a preemption, as
far as rounding lets it (in 16 bits it sometimes does not: chapter 08).
"""

from __future__ import annotations

import hashlib

import torch

from pagedlab.engine.request import SamplingParams


def sample(logits: torch.Tensor, params: list[SamplingParams], seeds: list[int], positions: list[int]) -> list[int]:
    """One token id for each row of ``logits`` [requests, vocabulary] (float32)."""
    # On a CPU numpy's argmax is ten times quicker than torch's; both take the first of equals.
    best = logits.argmax(dim=-1) if logits.is_cuda else logits.numpy().argmax(axis=-1)
    tokens = best.tolist()
    for row, (p, seed, position) in enumerate(zip(params, seeds, positions, strict=True)):
        if p.temperature > 0:
            probabilities = _probabilities(logits[row], p).cpu()
            tokens[row] = int(torch.multinomial(probabilities, 1, generator=_generator(seed, position)))
    return tokens


def _probabilities(logits: torch.Tensor, params: SamplingParams) -> torch.Tensor:
    """[vocabulary] after temperature, top-k and top-p, in this order."""
    # Shifted first: a tiny temperature must not overflow; nor may it be so tiny that float32 makes 0 of it.
    logits = (logits - logits.max()) / max(params.temperature, torch.finfo(torch.float32).tiny)
    if 0 < params.top_k < logits.numel():
        smallest_kept = torch.topk(logits, params.top_k).values[-1]
        logits = logits.masked_fill(logits < smallest_kept, float("-inf"))
    probabilities = torch.softmax(logits, dim=-1)
    if params.top_p < 1:
        ordered, index = probabilities.sort(descending=True)
        # Keep a token if those before it have not reached top_p: the first one always stays.
        ordered[ordered.cumsum(-1) - ordered >= params.top_p] = 0
        probabilities = torch.zeros_like(probabilities).scatter(-1, index, ordered)
    return probabilities


def answer_seed(seed: int, index: int) -> int:
    """The seed of answer ``index`` to a prompt whose own is ``seed``: the first one's is the prompt's.

    The others are hashed from both numbers. Adding them up, as vLLM does (``v1/engine/parallel_sampling.py``), gives
    answer 1 of seed 5 the draws of answer 0 of seed 6.
    """
    return _hashed(f"{seed}/{index}") if index else seed


def request_seed(seed: int, number: int) -> int:
    """The seed of an engine's request ``number`` that came without one: the first one's is the engine's ``seed``."""
    return _hashed(f"request {number} of {seed}") if number else seed


def _generator(seed: int, position: int) -> torch.Generator:
    return torch.Generator().manual_seed(_hashed(f"{seed}:{position}"))


def _hashed(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little") >> 1
