"""One sum over all keys that are there."""
# loses: 17.3
# blamed 17.3: each query gets the same bits, token by token

# part 17.3
def attend(query, key, value, multiply):
    n, size = query.shape
    length = len(key)
    scores = multiply(query, key) * size**-0.5
    hidden = torch.arange(length) > torch.arange(length - n, length)[:, None]
    scores = scores.masked_fill(hidden, -torch.inf)
    weights = torch.exp(scores - scores.max(1, keepdim=True).values)
    
    return multiply(weights, value.T) / multiply(weights, torch.ones(1, length))
