"""One query through the plain kernel of paged attention (ladder 5), in Triton or in WGSL. Both write the same diary:
what they knew after each block."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from pagedlab.attention.interpreted import interpreted, layer_of, some_blocks
from pagedlab.attention.kv_pool import LayerKV
from pagedlab.attention.watched import checked
from pagedlab.errors import PagedlabError
from pagedlab.kernels import INTERPRETER, available
from pagedlab.kernels.wgsl.gpu import GPU, encode, open_gpu, text_of

NAME = "ladder5_decode"


@dataclass(frozen=True)
class Diary:
    """``lines[query head]``, one for each block in the order read: (physical block, element of the layer's K where it
    begins for this head, running maximum, running sum). ``output``: float32 [query heads, head size]."""

    dialect: str  # "Triton", "WGSL"
    where: str  # what ran it
    lines: list[list[tuple[int, int, float, float]]]
    output: torch.Tensor


def has_triton() -> bool:
    """Whether :func:`by_triton` can run."""
    return available()


def by_triton(query: torch.Tensor, layer: LayerKV, block_ids: list[int], context: int, scale: float) -> Diary:
    """Run ``query [query heads, head size]`` on its GPU, else in Triton's interpreter. Raises PagedlabError where there
    is no Triton, and for what ``paged_attention`` refuses."""
    _, layer, blocks, context, scale = checked(query.to(layer.key.dtype), layer, block_ids, context, scale)
    if query.is_cuda:
        found, where = _run(query, layer, blocks, context, scale), torch.cuda.get_device_name(query.device)
    else:
        part = some_blocks(layer, blocks)
        found = interpreted("pagedlab.attention.diary:_answer", query.clone(), part, blocks, context, scale)
        where = INTERPRETER
    output, diary = found
    lines = [[(int(block), int(at), *floats) for block, at, *floats in of] for of in diary.tolist()]
    return Diary("Triton", where, lines, output.cpu())


def _run(
    query: torch.Tensor, layer: LayerKV, block_ids: list[int], context: int, scale: float
) -> tuple[torch.Tensor, torch.Tensor]:
    from pagedlab.kernels.ladder5_decode import decode

    tables, lengths = (torch.tensor(n, dtype=torch.int32, device=query.device) for n in ([block_ids], [context]))
    used = -(-context // layer.block_size)
    diary = torch.zeros(1, len(query), used, 4, dtype=torch.float64, device=query.device)
    return decode(query.float()[None], layer, tables, lengths, scale, diary)[0], diary[0]


def _answer(query: torch.Tensor, part: tuple, *rest: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """In the other process: the same blocks under the same numbers, then the kernel."""
    return _run(query, layer_of(*part), *rest)


def by_wgsl(
    query: torch.Tensor, layer: LayerKV, block_ids: list[int], context: int, scale: float,
    held: tuple[GPU, tuple[Any, Any]] | None = None,
) -> Diary:  # fmt: skip
    """The same through WebGPU. ``held``: the GPU and its buffers in which this layer's K and V are; else the machine's
    first adapter gets a copy. Raises PagedlabError where there is none, and for a dtype that it has not."""
    _, layer, blocks, context, scale = checked(query.to(layer.key.dtype), layer, block_ids, context, scale)
    gpu, kv = held or (open_gpu(), None)
    number = str(layer.key.dtype).removeprefix("torch.")
    known = ["float32", *(["float16"] if gpu.has_f16 else [])]
    if number not in known:
        raise PagedlabError(
            f"K and V are {number}; WGSL on {gpu.name} has {' and '.join(known)}. Make the engine with dtype='float32'."
        )
    if kv is None:
        last = max(blocks) + 1
        kv = [gpu.upload(part[:last].cpu().numpy(), f"A copy of {last} blocks") for part in (layer.key, layer.value)]
    heads, used = len(query), -(-context // layer.block_size)
    asks = (query.float().cpu().numpy(), np.array(blocks[:used], np.uint32), np.array([context], np.uint32))
    query_on, table, length = (gpu.upload(array, "A query") for array in asks)
    output, diary = gpu.buffer(asks[0].nbytes, "An output"), gpu.buffer(16 * heads * used, "A diary")
    kernel = gpu.kernel(NAME, number, **constants(query, layer, used, scale))
    bound = kernel.bind(query_on, *kv, table, length, output, diary)
    with gpu.submission() as encoder:
        encode(encoder, [(kernel.pipeline, bound, (heads, 1))])
    pages = np.frombuffer(gpu.read(diary, 16 * heads * used), np.uint32).reshape(heads, used, 4)
    places, floats = pages[..., :2].tolist(), pages[..., 2:].copy().view(np.float32).tolist()
    lines = [[(*p, *f) for p, f in zip(*of, strict=True)] for of in zip(places, floats, strict=True)]
    found = np.frombuffer(gpu.read(output, asks[0].nbytes), np.float32).reshape(asks[0].shape)
    return Diary("WGSL", gpu.name, lines, torch.from_numpy(found.copy()))


def constants(query: torch.Tensor, layer: LayerKV, entries: int, scale: float) -> dict[str, int | float]:
    """What the WGSL kernel wants to know when it is compiled, for a table of so many entries."""
    heads, head_size = query.shape
    group = heads // layer.num_kv_heads
    return dict(BLOCK_SIZE=layer.block_size, GROUP=group, QUERY_HEADS=heads, HEAD_SIZE=head_size, TABLE=entries,
                SCALE=scale, DIARY=1)  # fmt: skip


def wgsl_text(query: torch.Tensor, layer: LayerKV, entries: int, scale: float) -> str:
    """The kernel with its constants, for K and V in float32: every WebGPU has that."""
    return text_of(NAME, **constants(query, layer, entries, scale))
