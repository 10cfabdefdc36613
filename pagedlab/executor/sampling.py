"""From logits to a token.

Randomness belongs to a request: its seed and the token's position decide the draw, and nothing else does. So a run
can be replayed, branched and undone, and a request gives the same answer alone, in a batch, and after a preemption, as
far as rounding lets it (in 16 bits it sometimes does not: chapter 08).
"""

from __future__ import annotations

import numpy as np
import torch

from pagedlab.executor.abstract import Draw
from pagedlab.executor.fetch import index_of, rows_of, to_device_of


def sample(logits: torch.Tensor, draws: list[Draw]) -> torch.Tensor:
    """Token ids [draws] (int64) for the rows of ``logits`` [draws, vocabulary] (float32), on their device. On a GPU
    this only starts it: nobody waits for a number here."""
    tokens = _argmax(logits)
    rows = [row for row, draw in enumerate(draws) if draw.temperature > 0]
    if rows:
        drawn = [draws[row] for row in rows]
        probabilities = _probabilities(rows_of(logits, rows), drawn)
        tokens[index_of(rows, logits)] = _argmax(probabilities / _noise(drawn, logits))
    return tokens


def _noise(draws: list[Draw], logits: torch.Tensor) -> torch.Tensor:
    """[draws, vocabulary], exponentially distributed: where a probability over its noise is largest, there
    ``torch.multinomial`` draws on a CPU. The noise is the host's, so every device draws the same."""
    uniform = torch.empty((len(draws), logits.shape[-1]), dtype=torch.float64)
    generator = torch.Generator()
    for row, draw in zip(uniform, draws, strict=True):
        row.uniform_(generator=generator.manual_seed(draw.generator_seed))
    return to_device_of(logits, uniform.neg_().log1p_().neg_().float())  # the numbers of exponential_(), with all cores


def _probabilities(logits: torch.Tensor, draws: list[Draw]) -> torch.Tensor:
    """[draws, vocabulary] after temperature, top-k and top-p, in this order."""
    # Shifted first: a tiny temperature must not overflow; nor may it be so tiny that float32 makes 0 of it.
    temperatures = [max(draw.temperature, torch.finfo(torch.float32).tiny) for draw in draws]
    logits = (logits - logits.amax(-1, keepdim=True)) / _column(temperatures, logits)
    if rows := [row for row, draw in enumerate(draws) if 0 < draw.top_k < logits.shape[-1]]:
        counts = [draws[row].top_k for row in rows]
        some = rows_of(logits, rows)
        smallest_kept = some.topk(max(counts)).values.gather(-1, _column(counts, logits) - 1)
        logits[index_of(rows, logits)] = some.masked_fill(some < smallest_kept, float("-inf"))
    probabilities = logits.softmax(-1)
    if rows := [row for row, draw in enumerate(draws) if draw.top_p < 1]:
        some = rows_of(probabilities, rows)
        ordered = _descending(some)
        # A token is kept if those before it have not reached top_p: the first one always is.
        dropped = ordered.cumsum(-1) - ordered >= _column([draws[row].top_p for row in rows], logits)
        smallest_kept = ordered.masked_fill(dropped, float("inf")).amin(-1, keepdim=True)
        probabilities[index_of(rows, logits)] = some.masked_fill(some < smallest_kept, 0)
    return probabilities


def _column(numbers: list[float], like: torch.Tensor) -> torch.Tensor:
    """[numbers, 1], float32 or int64."""
    return to_device_of(like, torch.tensor(numbers)[:, None])


# On a CPU numpy is quicker than torch: ten times at this, four times at sorting.
def _argmax(rows: torch.Tensor) -> torch.Tensor:
    """Of equals the first."""
    return torch.from_numpy(rows.numpy().argmax(axis=-1)) if rows.device.type == "cpu" else rows.argmax(dim=-1)


def _descending(rows: torch.Tensor) -> torch.Tensor:
    on_cpu = rows.device.type == "cpu"
    return torch.from_numpy(np.sort(rows.numpy())).flip(-1) if on_cpu else rows.sort(descending=True).values
