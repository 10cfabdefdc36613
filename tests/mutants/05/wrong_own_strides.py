"""Works the strides out of the sizes: right in one layout, and for one KV head."""
# loses: 05.3

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
    heads = tl.num_programs(0) // GROUP
    for i in range(0, tl.cdiv(length, BLOCK_SIZE)):
        number = tl.load(table + i)
        real = i * BLOCK_SIZE + offset < length
        row = (number * BLOCK_SIZE + offset) * heads + head // GROUP
        place = row[:, None] * HEAD_SIZE + dim[None, :]
        k = tl.load(key + place, mask=real[:, None], other=0.0)
        v = tl.load(value + place, mask=real[:, None], other=0.0)
        s = tl.where(real, tl.sum(k * q[None, :], axis=1) * scale, -float("inf"))
        new = tl.maximum(m, tl.max(s, axis=0))
        w = tl.exp(s - new)
        shrink = tl.exp(m - new)
        l = l * shrink + tl.sum(w, axis=0)
        acc = acc * shrink + tl.sum(w[:, None] * v, axis=0)
        m = new
    tl.store(output + head * HEAD_SIZE + dim, acc / l)
