"""In the last block, places behind the last token get the weight 0, and 0 times NaN is NaN. The kernel masks nothing."""
# loses: 05.1 05.3

# part 05.1
def attend(query, read_block, table, length, scale):
    m, l, acc, seen = torch.tensor(-torch.inf), 0.0, torch.zeros_like(query), 0
    for block in table:
        if seen >= length:
            break
        key, value = read_block(block)
        real = torch.arange(len(key)) + seen < length
        s = torch.where(real, key @ query * scale, -torch.inf)
        new = torch.maximum(m, s.max())
        w = (s - new).exp()
        l = l * (m - new).exp() + w.sum()
        acc = acc * (m - new).exp() + w @ value
        m, seen = new, seen + len(key)
    return acc / l

# part 05.3
@triton.jit
def my_kernel(
    output, query, key, value, table, length, scale, stride_block, stride_token, stride_head,
    GROUP: tl.constexpr, BLOCK_SIZE: tl.constexpr, HEAD_SIZE: tl.constexpr,
):
    head = tl.program_id(0)
    dim = tl.arange(0, HEAD_SIZE)
    offset = tl.arange(0, BLOCK_SIZE)
    q = tl.load(query + head * HEAD_SIZE + dim)
    m = -float("inf")
    l = 0.0
    acc = tl.zeros([HEAD_SIZE], tl.float32)
    for i in range(0, tl.cdiv(length, BLOCK_SIZE)):
        number = tl.load(table + i)
        place = number * stride_block + head // GROUP * stride_head + offset[:, None] * stride_token + dim[None, :]
        k = tl.load(key + place)
        v = tl.load(value + place)
        s = tl.sum(k * q[None, :], axis=1) * scale
        new = tl.maximum(m, tl.max(s, axis=0))
        w = tl.exp(s - new)
        shrink = tl.exp(m - new)
        l = l * shrink + tl.sum(w, axis=0)
        acc = acc * shrink + tl.sum(w[:, None] * v, axis=0)
        m = new
    tl.store(output + head * HEAD_SIZE + dim, acc / l)
