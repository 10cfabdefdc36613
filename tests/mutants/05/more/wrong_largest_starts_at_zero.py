"""The largest score begins with 0, which may be none of them."""
# loses: 05.1
# blamed 05.1: scores far below zero do not vanish

# part 05.1
def attend(query, read_block, table, length, scale):
    largest = torch.tensor(0.0)
    total = torch.tensor(0.0)
    weighted = torch.zeros_like(query)
    seen = 0
    for block in table:
        if seen == length:
            break
        key, value = read_block(block)
        here = min(len(key), length - seen)
        scores = key[:here] @ query * scale
        new_largest = torch.maximum(largest, scores.max())
        shrink = torch.exp(largest - new_largest)
        weights = torch.exp(scores - new_largest)
        total = total * shrink + weights.sum()
        weighted = weighted * shrink + weights @ value[:here]
        largest = new_largest
        seen += here
    return weighted / total
