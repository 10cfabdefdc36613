"""Two logits that are nearly equal: there rounding decides, and a token that another program took is right as well."""

from __future__ import annotations

import dataclasses
from typing import Any

from pagedlab.executor import SamplerOutput, SamplingMetadata, ScheduledRequest

TIE = 1e-3  # logits closer than this are a near tie, in fp32


class FollowingExecutor:
    """Any executor, which takes the recorded token where that is as good as its own: a near tie of the logits.

    ``recorded``: tokens by number of the schedule, then by request id. ``schedule``: the number of the one that is
    submitted next. ``num_near_ties``: how often another token than the executor's own was taken.
    """

    def __init__(self, executor: Any, recorded: dict[int, dict[str, list[int]]]) -> None:
        self._executor, self._recorded = executor, recorded
        self.schedule = self.num_near_ties = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._executor, name)

    def submit(self, batch: list[ScheduledRequest], sampling: SamplingMetadata) -> tuple[Any, list[int | None]]:
        """Asks for the logits too, of the rows whose tokens are drawn."""
        rows = [draw.row for draw in sampling.draws]
        recorded = self._recorded.get(self.schedule, {})
        wanted = [recorded.get(batch[row].request_id, [None])[0] for row in rows]
        return self._executor.submit(batch, dataclasses.replace(sampling, logits=rows)), wanted

    def collect(self, handle: tuple[Any, list[int | None]]) -> SamplerOutput:
        submitted, wanted = handle
        output = self._executor.collect(submitted)
        token_ids = [
            theirs if theirs is not None and is_near_tie(logits, token, theirs) else token
            for logits, token, theirs in zip(output.logits, output.token_ids, wanted, strict=True)
        ]
        self.num_near_ties += sum(a != b for a, b in zip(token_ids, output.token_ids, strict=True))
        return SamplerOutput(token_ids, [])


def is_near_tie(logits: Any, token: int, other: int) -> bool:
    """Is ``other`` as good as ``token``, the best of ``logits`` [vocabulary]?"""
    return other < len(logits) and logits[token] - logits[other] < TIE
