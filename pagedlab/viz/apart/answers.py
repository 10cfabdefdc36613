"""Answers of one prompt in several runs, and where each leaves the first one's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pagedlab.errors import PagedlabError
from pagedlab.trace import Trace
from pagedlab.trace import events as ev


@dataclass(frozen=True)
class Answer:
    """``tokens``: (id, text) of each; ``flip``: how many are those of the first run's answer before one is another,
    None where all are."""

    name: str
    tokens: list[tuple[int, str]]
    flip: int | None


def answers(runs: Mapping[str, Trace], request: str) -> list[Answer]:
    """One for each run, the first first. Raises PagedlabError where a run has no token of this request."""
    found: list[Answer] = []
    for name, trace in runs.items():
        events: list[Any] = [e for e in trace.events if isinstance(e, ev.TokenSampled) and e.request_id == request]
        if not events:
            raise PagedlabError(f"The run {name!r} has no token of request {request!r}; give one that all runs answer.")
        tokens = [(e.token_id, e.text) for e in events]
        first = found[0].tokens if found else tokens
        ids, others = ([token_id for token_id, _ in of] for of in (first, tokens))
        same = next((i for i, pair in enumerate(zip(ids, others, strict=False)) if pair[0] != pair[1]), None)
        if same is None and len(ids) != len(others):
            same = min(len(ids), len(others))
        found.append(Answer(name, tokens, same))
    return found
