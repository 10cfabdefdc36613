"""One query through the watched decode kernel: what it read, in which order, and what softmax had at each iteration.

On a GPU the kernel runs here. Without one it runs in Triton's interpreter, in a process of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from pagedlab.attention.checks import check_inputs, check_layer, check_options, check_tensors
from pagedlab.attention.interpreted import interpreted, layer_of, some_blocks
from pagedlab.attention.kv_pool import LayerKV
from pagedlab.errors import PagedlabError, whole
from pagedlab.kernels import INTERPRETER
from pagedlab.trace import events as ev

TILE = 16  # tokens an iteration: the smallest that `tl.dot` multiplies


@dataclass(frozen=True)
class Iteration:
    """What the loop had after one tile. ``scores [tile's tokens]``, scaled; ``largest``, ``total``: running maximum and
    sum of exp(score - largest); ``rescale``: what the sum before was multiplied with (None in the first iteration);
    ``output [head size]``: weighted sum of V so far, divided by the sum so far."""

    scores: list[float]
    largest: float
    total: float
    rescale: float | None
    output: list[float]


@dataclass(frozen=True)
class Watched:
    """``spans``: one a KV head. ``iterations[query head]``: the loop's numbers, computed again in torch from the same
    memory, because the kernel keeps them in registers; ``difference``: the largest between their result and the
    kernel's own, ``output [query heads, head size]``."""

    spans: list[ev.KernelSpan]
    iterations: list[list[Iteration]]
    output: torch.Tensor
    difference: float
    where: str  # "Triton interpreter · CPU", or the GPU's name


def watch(query: torch.Tensor, layer: LayerKV, block_ids: list[int], context: int, scale: float) -> Watched:
    """Run ``query [query heads, head size]`` over ``context`` tokens, one or more, in ``block_ids``. Raises
    PagedlabError where the kernel cannot run, and for what ``paged_attention`` refuses."""
    question = checked(query, layer, block_ids, context, scale)
    query, layer, blocks, context, scale = question
    if query.is_cuda:
        output, spans, where = *_run(*question), torch.cuda.get_device_name(query.device)
    else:
        part = some_blocks(layer, blocks)
        output, spans = interpreted("pagedlab.attention.watched:_answer", query.clone(), part, blocks, context, scale)
        spans, where = [ev.from_dict(span) for span in spans], INTERPRETER
    iterations = by_torch(*question, TILE)
    return Watched(spans, iterations, output, apart(iterations, output), where)


def checked(
    query: torch.Tensor, layer: LayerKV, block_ids: list[int], context: int, scale: float
) -> tuple[torch.Tensor, LayerKV, list[int], int, float]:
    """The same as plain numbers. Raises PagedlabError for what ``paged_attention`` refuses."""
    check_layer(layer), check_tensors(query=query)
    context, scale = whole(context, "context", 1), check_options(scale, None, None)[0]
    blocks = [whole(block, "A block id") for block in block_ids]
    if blocks and not 0 <= min(blocks) <= max(blocks) < layer.num_blocks:
        raise PagedlabError(f"Block ids are {blocks!r:.80}; the pool has 0 to {layer.num_blocks - 1}.")
    if context > len(blocks) * layer.block_size:
        raise PagedlabError(f"{context:,} tokens do not fit into {len(blocks)} blocks of {layer.block_size}.")
    check_inputs(*_arguments(query, layer, blocks, context))
    return query, layer, blocks, context, scale


def by_torch(
    query: torch.Tensor, layer: LayerKV, block_ids: list[int], context: int, scale: float, tile: int
) -> list[list[Iteration]]:
    """The loop of every query head, ``tile`` tokens an iteration."""
    positions = torch.arange(context, device=query.device)
    blocks = torch.tensor(block_ids, device=query.device)[positions // layer.block_size]
    offsets = positions % layer.block_size
    key, value = layer.key[blocks, offsets].float(), layer.value[blocks, offsets].float()
    group = len(query) // layer.num_kv_heads
    return [
        online_softmax(query[h].float(), key[:, h // group], value[:, h // group], scale, tile)
        for h in range(len(query))
    ]


def apart(iterations: list[list[Iteration]], output: torch.Tensor) -> float:
    """The largest difference between what the loops end at and a kernel's ``output [query heads, head size]``."""
    result = torch.tensor([of[-1].output for of in iterations])
    return float((result - output.float().cpu()).abs().max())


def online_softmax(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float, tile: int
) -> list[Iteration]:
    """The kernel's loop for one head: ``query [head size]``, ``key``, ``value [context, head size]``, tile by tile."""
    result: list[Iteration] = []
    largest, total, weighted = torch.tensor(-torch.inf), torch.tensor(0.0), torch.zeros(len(query))
    for start in range(0, len(key), tile):
        scores = (key[start : start + tile] @ query).cpu() * scale
        new_largest = torch.maximum(largest, scores.max())
        rescale, weights = torch.exp(largest - new_largest), torch.exp(scores - new_largest)
        total = total * rescale + weights.sum()
        weighted = weighted * rescale + weights @ value[start : start + tile].cpu()
        result.append(
            Iteration(
                scores.tolist(),
                float(new_largest),
                float(total),
                float(rescale) if result else None,
                (weighted / total).tolist(),
            )
        )
        largest = new_largest
    return result


def _run(
    query: torch.Tensor, layer: LayerKV, block_ids: list[int], context: int, scale: float
) -> tuple[torch.Tensor, list[ev.KernelSpan]]:
    from dataclasses import replace

    from pagedlab.kernels.launch import check_device
    from pagedlab.kernels.run import decode
    from pagedlab.kernels.tuning import decode_tuning
    from pagedlab.kernels.watch import new_log, spans

    log = new_log(1, layer.num_kv_heads, 1, len(block_ids), query.device)
    tuning = replace(decode_tuning(check_device(query.device), query.dtype, layer.head_size), tile=TILE)
    arguments = _arguments(query, layer, block_ids, context)
    output = decode(*arguments, scale, splits=1, tuning=tuning, watch=log)
    return output[0], spans(log)


def _arguments(query: torch.Tensor, layer: LayerKV, block_ids: list[int], context: int) -> tuple:
    """As ``paged_attention`` takes them: a batch of one."""
    numbers = {"dtype": torch.int32, "device": query.device}
    table, lengths = torch.tensor([block_ids], **numbers), torch.tensor([context], **numbers)
    return query[None], layer, table, lengths, torch.tensor([0, 1], **numbers)


def _answer(query: torch.Tensor, part: tuple, *rest: object) -> tuple[torch.Tensor, list[dict]]:
    """In the other process: the same blocks under the same numbers, then the kernel."""
    output, spans = _run(query, layer_of(*part), *rest)
    return output, [ev.to_dict(span) for span in spans]
