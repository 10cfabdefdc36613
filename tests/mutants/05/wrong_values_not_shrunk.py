"""Shrinks the sum when a new largest score comes, and forgets the weighted sum of values."""
# loses: 05.1 05.3

# part 05.1
def attend(query, read_block, table, length, scale):
    m, l, acc, seen = torch.tensor(-torch.inf), 0.0, torch.zeros_like(query), 0
    for block in table:
        if seen == length:
            break
        key, value = read_block(block)
        n = min(key.shape[0], length - seen)
        s = key[:n] @ query * scale
        new = torch.maximum(m, s.max())
        w = (s - new).exp()
        l = l * (m - new).exp() + w.sum()
        acc = acc + w @ value[:n]
        m, seen = new, seen + n
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
        real = i * BLOCK_SIZE + offset < length
        place = number * stride_block + head // GROUP * stride_head + offset[:, None] * stride_token + dim[None, :]
        k = tl.load(key + place, mask=real[:, None], other=0.0)
        v = tl.load(value + place, mask=real[:, None], other=0.0)
        s = tl.where(real, tl.sum(k * q[None, :], axis=1) * scale, -float("inf"))
        new = tl.maximum(m, tl.max(s, axis=0))
        w = tl.exp(s - new)
        l = l * tl.exp(m - new) + tl.sum(w, axis=0)
        acc = acc + tl.sum(w[:, None] * v, axis=0)
        m = new
    tl.store(output + head * HEAD_SIZE + dim, acc / l)
