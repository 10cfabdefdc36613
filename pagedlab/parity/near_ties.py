"""Two logits that are nearly equal: there rounding decides, and a token that another program took is right as well."""

from __future__ import annotations

import dataclasses
from typing import Any

from pagedlab.executor import SamplerOutput, SamplingMetadata, ScheduledRequest

TIE = 1e-3  # logits closer than this are a near tie, in fp32


class FollowingExecutor:
    """Any executor, which takes the recorded token where that is as good as its own: a near tie of the logits.

    ``recorded``: tokens by number of the schedule, then by request id. ``schedule``: the number of the one that is
    submitted next. ``num_near_ties``: how often another token than the executor's own was taken. A batch that awaits
    tokens is given those of the batch before, whichever were taken; so that one is waited for.
    """

    def __init__(self, executor: Any, recorded: dict[int, dict[str, list[int]]]) -> None:
        self._executor, self._recorded = executor, recorded
        self.schedule = self.num_near_ties = 0
        self._last = Following(None, {})

    def __getattr__(self, name: str) -> Any:
        return getattr(self._executor, name)

    def submit(self, batch: list[ScheduledRequest], sampling: SamplingMetadata) -> Following:
        """Asks for the logits too, of the rows whose tokens are drawn."""
        last = self._last
        batch = [self._known(part, last) if part.is_awaited else part for part in batch]
        rows = [draw.row for draw in sampling.draws]
        recorded = self._recorded.get(self.schedule, {})
        wanted = {batch[row].request_id: recorded.get(batch[row].request_id, [None])[0] for row in rows}
        handle = self._executor.submit(batch, dataclasses.replace(sampling, logits=rows))
        self._last = Following(handle, wanted)
        return self._last

    def collect(self, handle: Following) -> SamplerOutput:
        return SamplerOutput(list(self._taken(handle).values()), [])

    def _known(self, part: ScheduledRequest, last: Following) -> ScheduledRequest:
        return dataclasses.replace(part, token_ids=[*part.token_ids, part.drawn_in(self._taken(last))])

    def _taken(self, handle: Following) -> dict[str, int]:
        """The tokens of a batch, by request; what it gave is looked at once."""
        if handle.submitted is not None:
            output, handle.submitted = self._executor.collect(handle.submitted), None
            own = zip(handle.tokens.items(), output.logits, output.token_ids, strict=True)
            for (name, theirs), logits, token in own:
                follows = theirs is not None and is_near_tie(logits, token, theirs)
                handle.tokens[name] = theirs if follows else token
                self.num_near_ties += handle.tokens[name] != token
        return handle.tokens


@dataclasses.dataclass
class Following:
    """A batch under way. ``tokens``: by request, what was recorded, and once it was waited for what was taken."""

    submitted: Any
    tokens: dict[str, int]


def is_near_tie(logits: Any, token: int, other: int) -> bool:
    """Is ``other`` as good as ``token``, the best of ``logits`` [vocabulary]?"""
    return other < len(logits) and logits[token] - logits[other] < TIE
