"""Ends before a block that is not full."""
# loses: 05.1
# blamed 05.1: blocks are read by their physical number, in the table's order

# part 05.1
def attend(query, read_block, table, length, scale):
    m, l, acc, seen = torch.tensor(-torch.inf), 0.0, torch.zeros_like(query), 0
    for block in table:
        if seen and length - seen < n:
            break
        key, value = read_block(block)
        n = min(len(key), length - seen)
        s = key[:n] @ query * scale
        new = torch.maximum(m, s.max())
        w = (s - new).exp()
        l = l * (m - new).exp() + w.sum()
        acc = acc * (m - new).exp() + w @ value[:n]
        m, seen = new, seen + n
    return acc / l
