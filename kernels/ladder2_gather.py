"""Ladder 2 of 5: how does a program find token 9, when the table says where the pages are?

One program a token. It translates its position as a processor translates an address:

    logical block = position // BLOCK_SIZE          physical_block_number = table[logical block]
    physical_block_offset = position % BLOCK_SIZE

and copies HEAD_SIZE numbers from there. Its result is the request's K in order, as if it had never been cut into
blocks. (The attention kernels do without this copy: from the next step on, each number is used where it lies.)
"""

import torch
import triton
import triton.language as tl

from pagedlab.kernels.launch import check_device, check_table, launch, padded


@triton.jit
def gather_kernel(
    destination,
    key,
    table,
    stride_block,
    stride_token,
    BLOCK_SIZE: tl.constexpr,
    HEAD_SIZE: tl.constexpr,
    HEAD_PADDED: tl.constexpr,
):
    position = tl.program_id(0)
    physical_block_number = tl.load(table + position // BLOCK_SIZE).to(tl.int64)
    physical_block_offset = position % BLOCK_SIZE
    dim = tl.arange(0, HEAD_PADDED)
    place = physical_block_number * stride_block + physical_block_offset * stride_token + dim
    row = tl.load(key + place, mask=dim < HEAD_SIZE)
    tl.store(destination + position * HEAD_SIZE + dim, row, mask=dim < HEAD_SIZE)


def gather(key: torch.Tensor, table: torch.Tensor, length: int) -> torch.Tensor:
    """Tokens 0 ... length - 1 of one KV head in order, `[length, head size]`.

    key `[blocks, block size, head size]`: one head of a layer's K, `layer.key[:, :, head]`; table int32 `[its blocks]`.
    """
    check_device(key.device)
    check_table(key, table, length)
    head_size = key.shape[2]
    destination = key.new_empty(length, head_size)
    launch(
        gather_kernel, (length,), destination, key, table, *key.stride()[:2],
        BLOCK_SIZE=key.shape[1], HEAD_SIZE=head_size, HEAD_PADDED=padded(head_size),
    )  # fmt: skip
    return destination
