"""Goes over whole splits and masks what is behind the context, but asks the table for blocks that there are not."""
# loses: 05.3
# blamed 05.3: the kernels run, and touch only what they are given

# part 05.3
@triton.jit
def split_kernel(
    partial, largest, total, query, key, value, table, length, scale, stride_block, stride_token, stride_head,
    GROUP: tl.constexpr, BLOCK_SIZE: tl.constexpr, HEAD_SIZE: tl.constexpr, BLOCKS_A_SPLIT: tl.constexpr,
):
    head, split = tl.program_id(0), tl.program_id(1)
    dim = tl.arange(0, HEAD_SIZE)
    offset = tl.arange(0, BLOCK_SIZE)
    q = tl.load(query + head * HEAD_SIZE + dim)
    m = -float("inf")
    l = 0.0
    acc = tl.zeros([HEAD_SIZE], tl.float32)
    first = split * BLOCKS_A_SPLIT
    end = first + BLOCKS_A_SPLIT
    for logical_block in range(first, end):
        number = tl.load(table + logical_block)
        inside = logical_block * BLOCK_SIZE + offset < length
        place = number * stride_block + head // GROUP * stride_head + offset[:, None] * stride_token + dim[None, :]
        k = tl.load(key + place, mask=inside[:, None], other=0.0)
        v = tl.load(value + place, mask=inside[:, None], other=0.0)
        score = tl.where(inside, tl.sum(k * q[None, :], axis=1) * scale, -float("inf"))
        new_m = tl.maximum(tl.maximum(m, tl.max(score, axis=0)), -1e30)
        weight = tl.exp(score - new_m)
        l = l * tl.exp(m - new_m) + tl.sum(weight, axis=0)
        acc = acc * tl.exp(m - new_m) + tl.sum(weight[:, None] * v, axis=0)
        m = new_m
    result = head * tl.num_programs(1) + split
    tl.store(largest + result, m)
    tl.store(total + result, l)
    tl.store(partial + result * HEAD_SIZE + dim, acc)


@triton.jit
def merge_kernel(output, partial, largest, total, SPLITS: tl.constexpr, HEAD_SIZE: tl.constexpr):
    head = tl.program_id(0)
    split = tl.arange(0, SPLITS)
    dim = tl.arange(0, HEAD_SIZE)
    result = head * SPLITS + split
    m = tl.load(largest + result)
    factor = tl.exp(m - tl.max(m, axis=0))
    l = tl.sum(factor * tl.load(total + result), axis=0)
    part = tl.load(partial + result[:, None] * HEAD_SIZE + dim[None, :])
    acc = tl.sum(factor[:, None] * part, axis=0)
    tl.store(output + head * HEAD_SIZE + dim, acc / l)
