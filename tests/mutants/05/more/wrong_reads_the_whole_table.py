"""Goes through all entries of the table, those behind the context too."""
# loses: 05.1
# blamed 05.1: no block is read behind the last token's

# part 05.1
def attend(query, read_block, table, length, scale):
    m, l, acc, seen = torch.tensor(-torch.inf), 0.0, torch.zeros_like(query), 0
    for block in table:
        key, value = read_block(block)
        n = min(key.shape[0], length - seen)
        if n == 0:
            continue
        s = key[:n] @ query * scale
        new = torch.maximum(m, s.max())
        w = (s - new).exp()
        l = l * (m - new).exp() + w.sum()
        acc = acc * (m - new).exp() + w @ value[:n]
        m, seen = new, seen + n
    return acc / l
