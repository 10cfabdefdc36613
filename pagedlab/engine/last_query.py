"""What did attention ask of memory for the token that was computed last?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from pagedlab.attention import paged_attention
from pagedlab.errors import PagedlabError, whole

if TYPE_CHECKING:
    from pagedlab.engine.llm import LLM


@torch.inference_mode()
def last_query(llm: LLM, request_id: str, layer: int) -> tuple[torch.Tensor, list[int], int]:
    """(query [query heads, head size] of the request's last computed token in ``layer``, its block ids, its context in
    tokens).

    That token goes through the model once more and reads the K and V that are in the pool, its own among them; nothing
    is written, so the run is not disturbed. Raises PagedlabError for a request that holds no memory, and for a layer
    that there is not.
    """
    request, table = llm.requests.get(request_id), llm.tables.get(request_id)
    if request is None or table is None or request.num_computed_tokens == 0:
        running = ", ".join(llm.tables) or "none"
        raise PagedlabError(f"Request {request_id!r} has nothing in memory now; those that have: {running}.")
    layer, num_layers = whole(layer, "layer"), llm.model.config.num_layers
    if not 0 <= layer < num_layers:
        raise PagedlabError(f"There is no layer {layer}; the model has 0 to {num_layers - 1}.")
    context, device = request.num_computed_tokens, llm.model.device
    blocks = list(table.block_ids)[: -(-context // llm.config.block_size)]
    tables = torch.tensor([blocks], dtype=torch.int32, device=device)
    lengths = torch.tensor([context], dtype=torch.int32, device=device)
    starts = torch.tensor([0, 1], dtype=torch.int32, device=device)
    asked: dict[int, torch.Tensor] = {}

    def attend(i: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        asked[i] = query[0].clone()
        return paged_attention(query, llm.kv_pool.layer(i), tables, lengths, starts, backend="torch")

    token = torch.tensor([request.all_token_ids[context - 1]], device=device)
    llm.model(token, torch.tensor([context - 1], device=device), attend)
    return asked[layer], blocks, context
