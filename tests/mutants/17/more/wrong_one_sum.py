"""One sum over all keys that are there."""
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
    
    return multiply(weights, value.T) / multiply(weights, torch.ones(1, length))
