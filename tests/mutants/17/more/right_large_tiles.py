"""Tiles of 64 rows; splits of 128 keys, in reversed order; events read twice."""
# loses: nothing

# part 17.1
def steps_and_tokens(lines, name):
    now, found = 0, []
    for e in [json.loads(line) for line in lines]:
        now = e["step"] if e["kind"] == "step_started" else now
        if e["kind"] == "token_sampled" and e["request_id"] == name:
            found.append([e["token_id"], now])
    return found

def first_flips(one, other):
    names = [{json.loads(line)["request_id"] for line in lines if '"request_arrived"' in line} for lines in (one, other)]
    result = {}
    for name in names[0].intersection(names[1]):
        a, b = steps_and_tokens(one, name), steps_and_tokens(other, name)
        at = [i for i in range(min(len(a), len(b))) if a[i][0] != b[i][0]]
        result[name] = [at[0], a[at[0]][0], b[at[0]][0], a[at[0]][1], b[at[0]][1]] if at else None
    return result

# part 17.2
def product(x, weight, library):
    out = torch.empty(len(x), len(weight))
    for i in range(0, len(x), 64):
        rows = x[i : i + 64]
        out[i : i + 64] = library(torch.cat([rows, torch.ones(64 - len(rows), x.shape[1])]), weight)[: len(rows)]
    return out

# part 17.3
def attend(query, key, value, multiply):
    n, size = query.shape
    length, width = len(key), 128
    splits = -(-length // width)
    keys, values = torch.zeros(splits * width, size), torch.zeros(splits * width, size)
    keys[:length], values[:length] = key, value
    scores = multiply(query, keys) * size**-0.5
    hidden = torch.arange(splits * width)[None] > torch.arange(length - n, length)[:, None]
    scores[hidden] = -torch.inf
    weights = torch.exp(scores - scores.amax(1, keepdim=True))
    values = torch.cat([values, torch.ones(splits * width, 1)], 1)
    both = sum(multiply(weights[:, f : f + width], values[f : f + width].T) for f in range(0, splits * width, width))
    return both[:, :size] / both[:, size:]
