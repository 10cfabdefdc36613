"""From logits to a token.

Randomness belongs to a request: its seed and the token's position decide the draw, and nothing else does. So a run
can be replayed, branched and undone, and a request gives the same answer alone, in a batch, and after a preemption, as
far as rounding lets it (in 16 bits it sometimes does not: chapter 08).
"""

from __future__ import annotations

import torch

from pagedlab.executor.abstract import Draw


def sample(logits: torch.Tensor, draws: list[Draw]) -> torch.Tensor:
    """Token ids [draws] (int64) for the rows of ``logits`` [draws, vocabulary] (float32), on their device. On a GPU
    this only starts it: nobody waits for a number here."""
    # On a CPU numpy's argmax is ten times quicker than torch's; both take the first of equals.
    on_cpu = logits.device.type == "cpu"
    tokens = torch.from_numpy(logits.numpy().argmax(axis=-1)) if on_cpu else logits.argmax(dim=-1)
    for row, draw in enumerate(draws):
        if draw.temperature > 0:
            # As torch.multinomial draws on a CPU: probabilities over exponential noise, and the largest of them. The
            # noise is the host's, so every device draws the same.
            generator = torch.Generator().manual_seed(draw.generator_seed)
            noise = torch.empty(logits.shape[-1], pin_memory=logits.is_cuda).exponential_(generator=generator)
            noise = noise.to(logits.device, non_blocking=True)
            tokens[row] = (_probabilities(logits[row], draw) / noise).argmax()
    return tokens


def _probabilities(logits: torch.Tensor, draw: Draw) -> torch.Tensor:
    """[vocabulary] after temperature, top-k and top-p, in this order."""
    # Shifted first: a tiny temperature must not overflow; nor may it be so tiny that float32 makes 0 of it.
    logits = (logits - logits.max()) / max(draw.temperature, torch.finfo(torch.float32).tiny)
    if 0 < draw.top_k < logits.numel():
        smallest_kept = torch.topk(logits, draw.top_k).values[-1]
        logits = logits.masked_fill(logits < smallest_kept, float("-inf"))
    probabilities = torch.softmax(logits, dim=-1)
    if draw.top_p < 1:
        ordered, index = probabilities.sort(descending=True)
        # Keep a token if those before it have not reached top_p: the first one always stays.
        ordered[ordered.cumsum(-1) - ordered >= draw.top_p] = 0
        probabilities = torch.zeros_like(probabilities).scatter(-1, index, ordered)
    return probabilities
