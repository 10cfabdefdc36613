"""Keeps the scores of all blocks, and all values that it read: more memory, same numbers. Prints on the way."""
# loses: nothing

# part 05.1
def attend(query, read_block, table, length, scale):
    keys, values = [], []
    while sum(map(len, keys)) < length:
        print("reading", table[len(keys)])
        key, value = read_block(table[len(keys)])
        keys.append(key)
        values.append(value)
    key, value = torch.cat(keys)[:length], torch.cat(values)[:length]
    return torch.softmax(key @ query * scale, dim=-1) @ value

# part 05.2
def my_attention(query, layer, block_tables, seq_lens, query_start_loc):
    rows = []
    share = query.shape[1] // layer.value.shape[2]
    for r, (first, end) in enumerate(zip(query_start_loc[:-1].tolist(), query_start_loc[1:].tolist())):
        before = int(seq_lens[r]) - (end - first)
        for i in range(end - first):
            heads = []
            for h, q in enumerate(query[first + i]):
                def read(block, h=h):
                    return layer.key[block, :, h // share], layer.value[block, :, h // share]
                heads.append(walk(q, read, [int(b) for b in block_tables[r]], before + i + 1, len(q) ** -0.5))
            rows.append(torch.stack(heads))
    return torch.stack(rows)

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
    print("program", head, split)
    first = BLOCKS_A_SPLIT * split
    end = tl.minimum(tl.cdiv(length, BLOCK_SIZE), first + BLOCKS_A_SPLIT)
    for logical_block in range(first, end):
        number = tl.load(table + logical_block)
        inside = logical_block * BLOCK_SIZE + offset < length
        place = number * stride_block + head // GROUP * stride_head + offset[:, None] * stride_token + dim[None, :]
        k = tl.load(key + place, mask=inside[:, None], other=0.0)
        v = tl.load(value + place, mask=inside[:, None], other=0.0)
        score = tl.where(inside, tl.sum(k * q[None, :], axis=1) * scale, -float("inf"))
        new_m = tl.maximum(m, tl.max(score, axis=0))
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
    share = factor / tl.sum(tl.load(total + result) * factor, axis=0)
    part = tl.load(partial + result[:, None] * HEAD_SIZE + dim[None, :])
    acc = tl.sum(share[:, None] * part, axis=0)
    tl.store(output + head * HEAD_SIZE + dim, acc)
