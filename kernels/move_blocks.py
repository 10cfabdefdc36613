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
from pagedlab.kernels.launch import check_blocks, check_device, launch
from pagedlab.kernels.pairs import check_pairs

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
    pieces,  # of a block
    PIECE: tl.constexpr,
):
    piece = tl.program_id(0) % pieces
    index = tl.program_id(0) // pieces
    plane = tl.program_id(1).to(tl.int64)
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
    and written, nor written twice: programs run in any order. Raises PagedlabError for tensors that do not fit
    together, and on a CPU for such ids (on a GPU looking at them would be waiting).
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
    if source.device != destination.device:
        raise PagedlabError(f"move_blocks: source is on {source.device}, destination on {destination.device}.")
    count = check_ids(destination, source, destination_ids, source_ids)
    if count == 0:
        return
    block_elements = source[0, 0, 0].numel()
    pieces = triton.cdiv(block_elements, PIECE)
    # Blocks along the first axis, of which a GPU takes 2**31 - 1; along the others only 65,535.
    grid = (pieces * count, 2 * source.shape[0])
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
        pieces,
        PIECE=PIECE,
        num_warps=4,
    )


def check_ids(destination, source, destination_ids, source_ids) -> int:
    """How many blocks move. Raises PagedlabError, as `move_blocks` says."""
    lists = [ids for ids in (destination_ids, source_ids) if ids is not None]
    if not lists or len({ids.shape for ids in lists}) > 1:
        raise PagedlabError("move_blocks: give destination_ids, source_ids or both, as many of one as of the other.")
    count = len(lists[0])
    for name, ids, blocks in (("destination_ids", destination_ids, destination), ("source_ids", source_ids, source)):
        num_blocks = blocks.shape[2]
        if ids is None:
            if count > num_blocks:
                raise PagedlabError(f"move_blocks: {count} blocks for a tensor of {num_blocks} ({name} is None).")
        elif ids.dtype != torch.int64 or ids.dim() != 1 or not ids.is_contiguous() or ids.device != blocks.device:
            raise PagedlabError(
                f"move_blocks: {name} is {ids.dtype} {list(ids.shape)} on {ids.device}; allowed is contiguous int64 "
                f"[blocks to move] on {blocks.device}."
            )
        elif ids.device.type == "cpu" and count:
            check_blocks(ids, num_blocks)
    if lists[0].device.type == "cpu" and destination_ids is not None:
        written = set(destination_ids.tolist())
        one_pool = source.data_ptr() == destination.data_ptr()
        read = set(source_ids.tolist()) if one_pool and source_ids is not None else set()
        if len(written) < count or written & read:
            raise PagedlabError("move_blocks: a block is written twice, or both written and read, in whatever order.")
    return count


def copy_blocks(data: torch.Tensor, pairs: list[tuple[int, int]]) -> None:
    """Copy whole blocks inside the pool: `(source, destination)` pairs, no block in both roles. Errors as of
    `move_blocks`."""
    lists = check_pairs("copy_blocks", pairs, data.shape[2], data.shape[2])
    source_ids, destination_ids = (torch.tensor(ids, dtype=torch.int64, device=data.device) for ids in lists)
    move_blocks(data, data, destination_ids, source_ids)


def gather_blocks(data: torch.Tensor, block_ids: torch.Tensor) -> torch.Tensor:
    """These blocks of the pool as one contiguous tensor `[layers, 2, len(block_ids), ...]` (swap out)."""
    buffer = data.new_empty(*data.shape[:2], len(block_ids), *data.shape[3:])
    move_blocks(buffer, data, None, block_ids)
    return buffer


def scatter_blocks(data: torch.Tensor, block_ids: torch.Tensor, buffer: torch.Tensor) -> None:
    """Put the blocks of a gathered tensor back into the pool, at these ids (swap in)."""
    move_blocks(data, buffer, block_ids, None)
