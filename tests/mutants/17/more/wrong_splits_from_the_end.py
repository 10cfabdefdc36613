"""Splits are counted from the last key."""
# loses: 17.3
# blamed 17.3: a prompt gets the same bits where its last token has a step of its own

# part 17.3
def attend(query, key, value, multiply):
    n, size = query.shape
    length = len(key)
    splits = (length + 31) // 32
    
    more = splits * 32 - length
    keys, values = torch.zeros(2, splits * 32, size)
    keys[more:], values[more:] = key, value
    position = torch.arange(length - n, length)[:, None] + more
    place = torch.arange(splits * 32)
    scores = multiply(query, keys) * size**-0.5
    scores = scores.masked_fill((place > position) | (place < more), -torch.inf)
    weights = torch.exp(scores - scores.max(1, keepdim=True).values)
    result, total = torch.zeros(n, size), torch.zeros(n, 1)
    for first in range(0, splits * 32, 32):
        part = weights[:, first : first + 32]
        result = result + multiply(part, values[first : first + 32].T)
        total = total + multiply(part, torch.ones(1, 32))
    return result / total
