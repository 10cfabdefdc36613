"""How do whole blocks move: inside the pool (copy-on-write), out of it, and back (swap)?

Once, as one kernel: take block source_ids[i] of one tensor, put it into block destination_ids[i] of another. Both are
`[layers, 2 (K, V), blocks, ...]`, the pool's shape, in which one block of one layer's K (or V) is one run of memory.
The caller picks:

    copy       pool -> pool       both lists are block ids
    gather     pool -> buffer     the buffer's blocks are 0, 1, 2 ...; one plain copy then takes it to the CPU
    scatter    buffer -> pool     the other way round

One program moves one piece (PIECE elements) of one block of one layer's K or V. Nothing is computed, so the kernel is
as fast as memory.
"""

import torch
import triton
import triton.language as tl

from pagedlab.errors import PagedlabError
from pagedlab.kernels.launch import check_device, launch

PIECE = 2048


@triton.jit
def move_blocks_kernel(
    destination,
    source,
    destination_ids,  # int64 [blocks to move], or None: 0, 1, 2 ...
    source_ids,
    destination_stride_plane,  # a plane is one layer's K, or its V
    source_stride_plane,
    block_elements,
    PIECE: tl.constexpr,
):
    piece = tl.program_id(0)
    plane = tl.program_id(1).to(tl.int64)
    index = tl.program_id(2)
    from_block = index.to(tl.int64)
    if source_ids is not None:
        from_block = tl.load(source_ids + index)
    to_block = index.to(tl.int64)
    if destination_ids is not None:
        to_block = tl.load(destination_ids + index)

    element = piece * PIECE + tl.arange(0, PIECE)
    inside = element < block_elements
    data = tl.load(source + plane * source_stride_plane + from_block * block_elements + element, mask=inside)
    tl.store(destination + plane * destination_stride_plane + to_block * block_elements + element, data, mask=inside)


def move_blocks(destination, source, destination_ids, source_ids) -> None:
    """Copy blocks between two contiguous tensors `[layers, 2, blocks, block size, KV heads, head size]`.

    ids are int64 tensors on the same device, or None for 0, 1, 2 ... (at least one is given). No block may be both read
    and written: programs run in any order. Raises PagedlabError for tensors that do not fit together.
    """
    check_device(source.device)
    for name, tensor in (("destination", destination), ("source", source)):
        if not tensor.is_contiguous() or tensor.dim() != 6:
            raise PagedlabError(f"move_blocks: {name} must be contiguous with 6 dimensions, as KVPool.data is.")
    same = destination.dtype == source.dtype and destination.shape[:2] == source.shape[:2]
    if not same or destination.shape[3:] != source.shape[3:]:
        raise PagedlabError(
            f"move_blocks: {list(source.shape)} {source.dtype} does not fit {list(destination.shape)} "
            f"{destination.dtype}; only "
            "the number of blocks may differ."
        )
    count = len(source_ids if source_ids is not None else destination_ids)
    if count == 0:
        return
    block_elements = source[0, 0, 0].numel()
    layers = source.shape[0]
    grid = (triton.cdiv(block_elements, PIECE), 2 * layers, count)
    launch(
        move_blocks_kernel,
        grid,
        destination,
        source,
        destination_ids,
        source_ids,
        destination.stride(1),
        source.stride(1),
        block_elements,
        PIECE=PIECE,
        num_warps=4,
    )


def copy_blocks(data: torch.Tensor, pairs: list[tuple[int, int]]) -> None:
    """Copy whole blocks inside the pool: `(source, destination)` pairs, no block in both roles."""
    ids = torch.tensor(pairs, dtype=torch.int64, device=data.device).T.contiguous()
    move_blocks(data, data, ids[1], ids[0])


def gather_blocks(data: torch.Tensor, block_ids: torch.Tensor) -> torch.Tensor:
    """These blocks of the pool as one contiguous tensor `[layers, 2, len(block_ids), ...]` (swap out)."""
    buffer = data.new_empty(*data.shape[:2], len(block_ids), *data.shape[3:])
    move_blocks(buffer, data, None, block_ids)
    return buffer


def scatter_blocks(data: torch.Tensor, block_ids: torch.Tensor, buffer: torch.Tensor) -> None:
    """Put the blocks of a gathered tensor back into the pool, at these ids (swap in)."""
    move_blocks(data, buffer, block_ids, None)
