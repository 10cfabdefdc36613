"""Always four splits, as long as it takes."""
# loses: 17.3
# blamed 17.3: a prompt gets the same bits where its last token has a step of its own

# part 17.3
def attend(query, key, value, multiply):
    n, size = query.shape
    length = len(key)
    scores = multiply(query, key) * size**-0.5
    hidden = torch.arange(length) > torch.arange(length - n, length)[:, None]
    scores = scores.masked_fill(hidden, -torch.inf)
    weights = torch.exp(scores - scores.max(1, keepdim=True).values)
    
    width = -(-length // 4)
    result, total = torch.zeros(n, size), torch.zeros(n, 1)
    for first in range(0, length, width):
        part = weights[:, first : first + width]
        result = result + multiply(part, value[first : first + width].T)
        total = total + multiply(part, torch.ones(1, part.shape[1]))
    return result / total
