"""How does attention read a context that is scattered over blocks?

Tile after tile. A tile is TILE tokens of one request, in the order of their positions. For each of its tokens:

    logical block           = position // BLOCK_SIZE          which page of the request
    physical_block_number   = table[logical block]            where that page is: one extra load, the price of paging
    physical_block_offset   = position %  BLOCK_SIZE          which line on the page
    address of its K        = key + physical_block_number * stride of a block
                                  + physical_block_offset * stride of a token
                                  + 0 ... HEAD_SIZE - 1       (`key` already points to the right KV head)

`physical_block_number` becomes a 64-bit number first: block times stride passes 2**31 in a pool of a few GiB. (Offsets
inside a block stay 32-bit numbers, which cost half the registers; `launch.py` refuses a pool where that is too few.)
Nothing asks that neighbours in the tile are neighbours in memory, nor that a tile is a whole number of blocks.

The softmax is "online" (Milakov and Gimelshein, 2018): keep the largest score so far and the sum of
exp(score - largest); when a larger one comes, shrink what was added up before. So no tile is looked at twice, and the
scores are never all in memory.

Every kernel that attends (decode, decode_split, prefill) is this loop with other rows and another range of positions.
"""

import triton
import triton.language as tl

LOG2E = tl.constexpr(1.4426950408889634)  # exp(x) = exp2(x * LOG2E), and exp2 is what the hardware has


@triton.jit
def load_tile(base, row, dim, token_inside, HEAD_SIZE: tl.constexpr, UPCAST: tl.constexpr):
    """Rows `base + row[i]` of K or V, `[TILE, HEAD_PADDED]`. What lies outside reads as 0: no NaN comes from there."""
    # `dim` runs over neighbours in memory: each thread takes 16 bytes of a row at once.
    inside = token_inside[:, None] & (dim < HEAD_SIZE)[None, :]
    tile = tl.load(base + row[:, None] + dim[None, :], mask=inside, other=0.0)
    if UPCAST:  # Triton's interpreter cannot multiply bfloat16
        tile = tile.to(tl.float32)
    return tile


@triton.jit
def tanh(x):
    """Written with exp, which every back end has; near 0, where that would subtract equals, as its series."""
    square = x * x
    near = x * (1.0 - square * (1.0 / 3.0 - square * (2.0 / 15.0)))
    return tl.where(square < 0.0025, near, 1.0 - 2.0 / (tl.exp(2.0 * x) + 1.0))


@triton.jit
def attend_blocks(
    query,  # [ROWS, HEAD_PADDED], a tile in registers
    query_position,  # [ROWS], where each row's token stands; it sees positions up to its own
    first,  # the positions to read: first <= position < end
    end,
    key,  # pointers to block 0, token 0 of the KV head
    value,
    table,  # pointer to the request's row of the block tables
    key_stride_block,
    key_stride_token,
    value_stride_block,
    value_stride_token,
    scale,
    soft_cap,
    watch,  # None, or where this program writes down what it reads (see `watch.py`)
    BLOCK_SIZE: tl.constexpr,
    HEAD_SIZE: tl.constexpr,
    HEAD_PADDED: tl.constexpr,
    TILE: tl.constexpr,
    WINDOW: tl.constexpr,  # sliding window in tokens, 0 for none
    SOFT_CAP: tl.constexpr,
    PAGED: tl.constexpr,  # False: a request's blocks are neighbours, and only its first table entry is read
    UPCAST: tl.constexpr,
    WATCH: tl.constexpr,
):
    """Returns largest score (times LOG2E) and sum of weights, `[ROWS]`, and weighted sum of V `[ROWS, HEAD_PADDED]`."""
    ROWS: tl.constexpr = query.shape[0]
    dim = tl.arange(0, HEAD_PADDED)
    largest = tl.full([ROWS], float("-inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    weighted = tl.zeros([ROWS, HEAD_PADDED], tl.float32)
    first_block = 0
    if not PAGED:
        first_block = tl.load(table)

    for start in range(first, end, TILE):
        position = start + tl.arange(0, TILE)
        inside = position < end
        logical_block = position // BLOCK_SIZE
        if PAGED:
            physical_block_number = tl.load(table + logical_block, mask=inside, other=0).to(tl.int64)
        else:
            physical_block_number = (first_block + logical_block).to(tl.int64)
        physical_block_offset = position % BLOCK_SIZE

        key_row = physical_block_number * key_stride_block + physical_block_offset * key_stride_token
        k = load_tile(key, key_row, dim, inside, HEAD_SIZE, UPCAST)
        value_row = physical_block_number * value_stride_block + physical_block_offset * value_stride_token
        v = load_tile(value, value_row, dim, inside, HEAD_SIZE, UPCAST)

        # "ieee": in fp32 a GPU would use TF32 (10 bits of mantissa) by default, and nobody would notice on a CPU.
        score = tl.dot(query, tl.trans(k), input_precision="ieee") * scale
        if SOFT_CAP:
            score = soft_cap * tanh(score / soft_cap)
        visible = inside[None, :] & (position[None, :] <= query_position[:, None])
        if WINDOW > 0:
            visible = visible & (position[None, :] > query_position[:, None] - WINDOW)
        score = tl.where(visible, score * LOG2E, float("-inf"))

        new_largest = tl.maximum(largest, tl.max(score, axis=1))
        # A row that has seen nothing yet has -inf here, and -inf - -inf is NaN.
        safe = tl.where(new_largest == float("-inf"), 0.0, new_largest)
        weight = tl.exp2(score - safe[:, None])
        shrink = tl.exp2(largest - safe)
        total = total * shrink + tl.sum(weight, axis=1)
        weighted = tl.dot(weight.to(v.dtype), v, weighted * shrink[:, None], input_precision="ieee")
        largest = new_largest

        if WATCH:
            # A block is written down once: at its first token, or at the first token that this program reads.
            begins = inside & ((physical_block_offset == 0) | (position == first))
            entry = watch + logical_block * 2
            iteration = (start - first) // TILE
            tl.store(entry, physical_block_number, mask=begins)
            tl.store(entry + 1, tl.zeros([TILE], tl.int64) + iteration, mask=begins)
    return largest, total, weighted
