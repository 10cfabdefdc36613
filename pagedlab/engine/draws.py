"""Between a request and the executor: which token is to be drawn, and whose it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pagedlab.engine.events import EngineEvents
from pagedlab.engine.request import Request
from pagedlab.executor import Draw


def draw(row: int, request: Request, position: int, seed: int | None = None) -> Draw:
    """The token of ``request`` at ``position``, from a row of the batch. ``seed``: of a fork that there is not yet."""
    p = request.sampling_params
    seed = request.seed if seed is None else seed
    return Draw(row, position, seed, p.temperature, p.top_k, p.top_p)


def assign(
    requests: list[Request], token_ids: list[int], by: Callable[..., Any], events: EngineEvents
) -> dict[str, int]:
    """A token for each request, by request id. The trace names ``by`` as what chose them; of a request that has
    finished meanwhile it knows nothing more."""
    assigned = {}
    for request, token_id in zip(requests, token_ids, strict=True):
        if request.finish_reason is None:
            events.sampled(request, token_id, by)
        assigned[request.request_id] = token_id
    return assigned
