"""From the plain decode kernel to the one that the engine uses: what did each change bring?

Each rung changes a few lines of the one before. What it *should* gain is written here beforehand, for Llama 3.1 8B's
shapes (32 query heads, 8 KV heads, head size 128, bf16) at 64 requests of 4,096 tokens; what it gained, `pagedlab
gpu-check` measures. Where the two differ, something about the machine was not understood: that is the interesting case.
`pagedlab gpu-check --compile-only` counts each loop's instructions, without a GPU: from sm_80 on they become fewer up
to rung 4, and then stay about the same.

    1  plain            `ladder5_decode`: a program for each query head, one block an iteration
    2  share the group  `group_kernel`, below: a program for each KV head; its 4 query heads are rows of a tile
    3  larger tiles     `tiled_kernel`, below: several blocks an iteration, each token's address from the table
    4  tensor cores     `attend_blocks` with 1 stage: K and V stay 16-bit numbers, which tensor cores multiply
    5  load ahead       `attend_blocks` with the table's stages: the next tile comes while this one is computed
    6  split            `decode_split` with 2 parts: several programs a context, merged at the end
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
import triton
import triton.language as tl

from pagedlab.kernels import ladder5_decode
from pagedlab.kernels.launch import check_launch, check_plain, launch, padded
from pagedlab.kernels.run import decode
from pagedlab.kernels.scale import check_scale
from pagedlab.kernels.tuning import decode_tuning


@triton.jit
def group_kernel(
    output,
    query,
    key,
    value,
    block_tables,
    seq_lens,
    scale,
    stride_block,
    stride_token,
    stride_head,
    table_stride,
    TILE: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
    GROUP: tl.constexpr,
    ROWS: tl.constexpr,
    HEAD_SIZE: tl.constexpr,
    HEAD_PADDED: tl.constexpr,
):
    """Rung 2: K and V are loaded once for all query heads that share them.

    Products of tiles are `tl.dot`. Written as multiply and add up, all rows times all tokens times all dimensions, they
    take four times as many instructions: each thread then adds up over its neighbours for every single score.
    """
    kv_head = tl.program_id(0)  # changed: the program is a KV head ...
    request = tl.program_id(1)
    length = tl.load(seq_lens + request)
    head = kv_head * GROUP + tl.arange(0, ROWS)  # ... and its query heads are rows
    dim = tl.arange(0, HEAD_PADDED)
    real_row = (tl.arange(0, ROWS) < GROUP)[:, None] & (dim < HEAD_SIZE)[None, :]
    row = (request * tl.num_programs(0) * GROUP + head)[:, None] * HEAD_SIZE + dim[None, :]
    q = tl.load(query + row, mask=real_row, other=0.0).to(tl.float32)
    offset = tl.arange(0, TILE)

    largest = tl.full([ROWS], -float("inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    weighted = tl.zeros([ROWS, HEAD_PADDED], tl.float32)
    for logical_block in range(0, tl.cdiv(length, BLOCK_SIZE)):
        physical_block_number = tl.load(block_tables + request * table_stride + logical_block).to(tl.int64)
        inside = (offset < BLOCK_SIZE) & (logical_block * BLOCK_SIZE + offset < length)
        place = (
            physical_block_number * stride_block + kv_head * stride_head + offset[:, None] * stride_token + dim[None, :]
        )
        real = inside[:, None] & (dim < HEAD_SIZE)[None, :]
        k = tl.load(key + place, mask=real, other=0.0).to(tl.float32)
        v = tl.load(value + place, mask=real, other=0.0).to(tl.float32)
        score = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        score = tl.where(inside[None, :], score, -float("inf"))
        new_largest = tl.maximum(largest, tl.max(score, axis=1))
        weight = tl.exp(score - new_largest[:, None])
        shrink = tl.exp(largest - new_largest)
        total = total * shrink + tl.sum(weight, axis=1)
        weighted = tl.dot(weight, v, weighted * shrink[:, None], input_precision="ieee")
        largest = new_largest
    tl.store(output + row, (weighted / total[:, None]).to(output.dtype.element_ty), mask=real_row)


@triton.jit
def tiled_kernel(
    output,
    query,
    key,
    value,
    block_tables,
    seq_lens,
    scale,
    stride_block,
    stride_token,
    stride_head,
    table_stride,
    TILE: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
    GROUP: tl.constexpr,
    ROWS: tl.constexpr,
    HEAD_SIZE: tl.constexpr,
    HEAD_PADDED: tl.constexpr,
):
    """Rung 3: a tile is TILE tokens, not one block, so more bytes are asked for at once and the loop is shorter."""
    kv_head = tl.program_id(0)
    request = tl.program_id(1)
    length = tl.load(seq_lens + request)
    head = kv_head * GROUP + tl.arange(0, ROWS)
    dim = tl.arange(0, HEAD_PADDED)
    real_row = (tl.arange(0, ROWS) < GROUP)[:, None] & (dim < HEAD_SIZE)[None, :]
    row = (request * tl.num_programs(0) * GROUP + head)[:, None] * HEAD_SIZE + dim[None, :]
    q = tl.load(query + row, mask=real_row, other=0.0).to(tl.float32)

    largest = tl.full([ROWS], -float("inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    weighted = tl.zeros([ROWS, HEAD_PADDED], tl.float32)
    for start in range(0, length, TILE):  # changed: by tokens, and every token looks up its own block
        position = start + tl.arange(0, TILE)
        inside = position < length
        table = block_tables + request * table_stride
        physical_block_number = tl.load(table + position // BLOCK_SIZE, mask=inside, other=0).to(tl.int64)
        token_place = physical_block_number * stride_block + (position % BLOCK_SIZE) * stride_token
        place = token_place[:, None] + kv_head * stride_head + dim[None, :]
        real = inside[:, None] & (dim < HEAD_SIZE)[None, :]
        k = tl.load(key + place, mask=real, other=0.0).to(tl.float32)
        v = tl.load(value + place, mask=real, other=0.0).to(tl.float32)
        score = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        score = tl.where(inside[None, :], score, -float("inf"))
        new_largest = tl.maximum(largest, tl.max(score, axis=1))
        weight = tl.exp(score - new_largest[:, None])
        shrink = tl.exp(largest - new_largest)
        total = total * shrink + tl.sum(weight, axis=1)
        weighted = tl.dot(weight, v, weighted * shrink[:, None], input_precision="ieee")
        largest = new_largest
    tl.store(output + row, (weighted / total[:, None]).to(output.dtype.element_ty), mask=real_row)


def _run_own(kernel, tile, query, layer, block_tables, seq_lens, query_start_loc, scale):
    check_plain(query, layer, block_tables, seq_lens)
    scale = check_scale(scale)
    output = torch.empty_like(query)
    requests, query_heads, head_size = query.shape
    group = query_heads // layer.num_kv_heads
    launch(
        kernel, (layer.num_kv_heads, requests), output, query, layer.key, layer.value, block_tables, seq_lens, scale,
        *layer.key.stride()[:3], block_tables.stride(0), TILE=tile, BLOCK_SIZE=layer.block_size, GROUP=group,
        ROWS=padded(group), HEAD_SIZE=head_size, HEAD_PADDED=padded(head_size), num_stages=1,
    )  # fmt: skip
    return output


def _plain(query, layer, block_tables, seq_lens, query_start_loc, scale):
    return ladder5_decode.decode(query, layer, block_tables, seq_lens, scale)


def _group(query, layer, *rest):
    return _run_own(group_kernel, max(16, padded(layer.block_size)), query, layer, *rest)  # `tl.dot` adds up 16 or more


def _tiled(query, layer, *rest):
    return _run_own(tiled_kernel, 32, query, layer, *rest)


def _final(splits, stages=None):
    def run(query, layer, block_tables, seq_lens, query_start_loc, scale):
        tuning = decode_tuning(check_launch(query, layer), query.dtype, layer.head_size)
        if stages is not None:
            tuning = replace(tuning, stages=stages)
        arguments = (query, layer, block_tables, seq_lens, query_start_loc, scale)
        return decode(*arguments, splits=splits, tuning=tuning)

    return run


@dataclass(frozen=True)
class Rung:
    """run(query, layer, block_tables, seq_lens, query_start_loc, scale) -> output; one query a request, contiguous."""

    name: str
    changed: str
    expected: str
    run: Callable


RUNGS = (
    Rung("plain", "one program a query head, one block an iteration", "the starting point", _plain),
    Rung("share the group", "one program a KV head, query heads are rows",
         "up to 4 times: K and V are read once instead of 4 times, though the second-level cache hides some of that",
         _group),
    Rung("larger tiles", "32 tokens an iteration instead of one block of 16",
         "1.2 to 1.5 times: twice the bytes under way, half the loop's own cost", _tiled),
    Rung("tensor cores", "16-bit numbers on tensor cores instead of float32 on ordinary ones",
         "1.5 to 3 times: 4 query heads of products on ordinary cores take longer than the loads", _final(1, stages=1)),
    Rung("load ahead", "num_stages from the table instead of 1",
         "1.1 to 1.4 times: loads no longer wait for arithmetic", _final(1)),
    Rung("split", "2 programs a context, merged",
         "nothing here, 512 programs fill the GPU; many times at 1 request of 32,768 tokens", _final(2)),
)  # fmt: skip
