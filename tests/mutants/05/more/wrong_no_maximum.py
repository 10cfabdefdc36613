"""Adds up e^score as it comes: right until the scores are large."""
# loses: 05.1
# blamed 05.1: large scores do not overflow

# part 05.1
def attend(query, read_block, table, length, scale):
    total, weighted, left = 0.0, 0.0, length
    for block in table:
        if left <= 0:
            break
        key, value = read_block(block)
        key, value = key[:left], value[:left]
        weights = torch.exp(key @ query * scale)
        total, weighted, left = total + weights.sum(), weighted + weights @ value, left - len(key)
    return weighted / total
