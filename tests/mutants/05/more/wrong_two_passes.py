"""Right numbers, but every block is read twice: once for the softmax, once for the values."""
# loses: 05.1
# blamed 05.1: every block is read once

# part 05.1
def attend(query, read_block, table, length, scale):
    size, scores, start = None, [], 0
    used = []
    for block in table:
        if start >= length:
            break
        key, _ = read_block(block)
        scores.append((key @ query * scale)[: length - start])
        used.append(block)
        start += key.shape[0]
    weights = torch.softmax(torch.cat(scores), dim=0)
    result, start = torch.zeros_like(query), 0
    for block, part in zip(used, scores):
        _, value = read_block(block)
        result = result + weights[start : start + len(part)] @ value[: len(part)]
        start += len(part)
    return result
