"""What did attention ask of memory for the token that was computed last?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pagedlab.errors import PagedlabError, whole
from pagedlab.kv.block_table import tables_of

if TYPE_CHECKING:
    from pagedlab.engine.llm import LLM


def last_query(llm: LLM, request_id: str, layer: int) -> tuple[Any, list[int], int]:
    """(query [query heads, head size] of the request's last computed token in ``layer``, its block ids there, its
    context in tokens).

    That token goes through the model once more and reads the K and V that are in the pool, its own among them; nothing
    is written, so the run is not disturbed. Raises PagedlabError for a request that holds no memory, for a layer that
    there is not, and for an executor that cannot tell.
    """
    request, table = llm.requests.get(request_id), llm.tables.get(request_id)
    if request is None or table is None or request.num_computed_tokens == 0:
        running = ", ".join(llm.tables) or "none"
        raise PagedlabError(f"Request {request_id!r} has nothing in memory now; those that have: {running}.")
    layer, config = whole(layer, "layer"), llm.executor.model_config
    if not 0 <= layer < config.num_layers:
        raise PagedlabError(f"There is no layer {layer}; the model has 0 to {config.num_layers - 1}.")
    if not hasattr(llm.executor, "last_query"):
        raise PagedlabError(f"{type(llm.executor).__name__} cannot tell what attention asked for; the CPU can.")
    context = request.num_computed_tokens
    tables = [list(table.block_ids)[: -(-context // llm.config.block_size)] for table in tables_of(table)]
    of_layer = next(i for i, group in enumerate(config.layer_groups) if layer in group.layers)
    token_id = request.all_token_ids[context - 1]
    return llm.executor.last_query(token_id, context, tables, layer), tables[of_layer], context
