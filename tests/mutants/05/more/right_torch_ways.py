"""Part 1 with a merge of two partial results (log-sum-exp), part 2 with softmax over gathered blocks, part 3 by tokens."""
# loses: nothing

# part 05.1
def attend(query, read_block, table, length, scale):
    size = None
    state = None
    for i, block in enumerate(table):
        if size is not None and i * size >= length:
            break
        key, value = read_block(int(block))
        size = key.shape[0]
        keep = slice(0, length - i * size)
        scores = (key[keep] * query).sum(dim=1) * scale
        new = (torch.logsumexp(scores, 0), torch.softmax(scores, 0) @ value[keep])
        if state is None:
            state = new
        else:
            both = torch.stack([state[0], new[0]])
            share = torch.softmax(both, 0)
            state = (torch.logsumexp(both, 0), share[0] * state[1] + share[1] * new[1])
    return state[1]

# part 05.2
def my_attention(query, layer, block_tables, seq_lens, query_start_loc):
    outputs = []
    tokens, heads, width = query.shape
    kv_heads, size = layer.key.shape[2], layer.key.shape[1]
    for r, context in enumerate(seq_lens.tolist()):
        q = query[query_start_loc[r] : query_start_loc[r + 1]]
        blocks = block_tables[r, : (context + size - 1) // size].long()
        key = layer.key[blocks].flatten(0, 1)[:context].repeat_interleave(heads // kv_heads, dim=1)
        value = layer.value[blocks].flatten(0, 1)[:context].repeat_interleave(heads // kv_heads, dim=1)
        scores = torch.einsum("qhd,khd->hqk", q, key) / width**0.5
        position = torch.arange(context - len(q), context)[:, None]
        scores = scores.masked_fill(torch.arange(context) > position, float("-inf"))
        outputs.append(torch.einsum("hqk,khd->qhd", scores.softmax(-1), value))
    return torch.cat(outputs)

# part 05.3
@triton.jit
def split_kernel(
    partial, largest, total, query, key, value, table, length, scale, stride_block, stride_token, stride_head,
    GROUP: tl.constexpr, BLOCK_SIZE: tl.constexpr, HEAD_SIZE: tl.constexpr, BLOCKS_A_SPLIT: tl.constexpr,
):
    head = tl.program_id(0)
    split = tl.program_id(1)
    dim = tl.arange(0, HEAD_SIZE)
    q = tl.load(query + head * HEAD_SIZE + dim)
    m = -float("inf")
    l = 0.0
    acc = tl.zeros([HEAD_SIZE], tl.float32)
    tokens = BLOCKS_A_SPLIT * BLOCK_SIZE
    for p in range(split * tokens, tl.minimum((split + 1) * tokens, length)):
        number = tl.load(table + p // BLOCK_SIZE)
        place = number * stride_block + p % BLOCK_SIZE * stride_token + head // GROUP * stride_head + dim
        s = tl.sum(q * tl.load(key + place), axis=0) * scale
        new = tl.maximum(m, s)
        l = l * tl.exp(m - new) + tl.exp(s - new)
        acc = acc * tl.exp(m - new) + tl.exp(s - new) * tl.load(value + place)
        m = new
    splits = tl.num_programs(1)
    tl.store(largest + head * splits + split, m)
    tl.store(total + head * splits + split, l)
    tl.store(partial + (head * splits + split) * HEAD_SIZE + dim, acc)


@triton.jit
def merge_kernel(output, partial, largest, total, SPLITS: tl.constexpr, HEAD_SIZE: tl.constexpr):
    head = tl.program_id(0)
    dim = tl.arange(0, HEAD_SIZE)
    m = tl.load(largest + head * SPLITS)
    l = tl.load(total + head * SPLITS)
    acc = tl.load(partial + head * SPLITS * HEAD_SIZE + dim)
    for split in range(1, SPLITS):
        at = head * SPLITS + split
        other = tl.load(largest + at)
        new = tl.maximum(m, other)
        l = l * tl.exp(m - new) + tl.load(total + at) * tl.exp(other - new)
        acc = acc * tl.exp(m - new) + tl.load(partial + at * HEAD_SIZE + dim) * tl.exp(other - new)
        m = new
    tl.store(output + head * HEAD_SIZE + dim, acc / l)
