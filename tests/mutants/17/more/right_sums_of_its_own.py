"""Adds up by itself, number by number; each query in a loop."""
# loses: nothing

# part 17.2
def product(x, weight, library):
    total = torch.zeros(len(x), len(weight))
    for i in range(x.shape[1]):
        total = total + x[:, i : i + 1] * weight[:, i]
    return total

# part 17.3
def attend(query, key, value, multiply):
    n, size = query.shape
    rows = []
    for i in range(n):
        seen = len(key) - n + i + 1
        scores = [float(multiply(query[i : i + 1], key[j : j + 1])) * size**-0.5 for j in range(seen)]
        most, total, mean = max(scores), 0.0, torch.zeros(size)
        for score, v in zip(scores, value):
            w = torch.exp(torch.tensor(score - most))
            total, mean = total + w, mean + w * v
        rows.append(mean / total)
    return torch.stack(rows)
