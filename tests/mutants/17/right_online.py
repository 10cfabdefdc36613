"""Pairs by dict; pads all rows at once; online softmax, split by split."""
# loses: nothing

# part 17.1
def first_flips(one, other):
    arrived, chosen = [], []
    for lines in (one, other):
        names, tokens, step = set(), {}, None
        for line in lines[1:]:
            e = json.loads(line)
            if e["kind"] == "request_arrived":
                names.add(e["request_id"])
            if e["kind"] == "step_started":
                step = e["step"]
            if e["kind"] == "token_sampled":
                tokens[e["request_id"], e["position"]] = e["token_id"], step
        arrived.append(names)
        chosen.append(tokens)
    result = {name: None for name in arrived[0] & arrived[1]}
    for name in result:
        places = sorted(p for n, p in chosen[0] if n == name)
        for place in places:
            a, b = chosen[0][name, place], chosen[1].get((name, place))
            if b is not None and a[0] != b[0]:
                result[name] = [place - places[0], a[0], b[0], a[1], b[1]]
                break
    return result

# part 17.2
def product(x, weight, library):
    n = len(x)
    filled = torch.nn.functional.pad(x, (0, 0, 0, -n % 16))
    return torch.cat([library(tile, weight) for tile in filled.split(16)])[:n]

# part 17.3
def attend(query, key, value, multiply):
    n, size = query.shape
    length = len(key)
    position = torch.arange(length - n, length)[:, None]
    most = torch.full((n, 1), -1e30)
    total, result = torch.zeros(n, 1), torch.zeros(n, size)
    for first in range(0, length, 32):
        k, v = (torch.nn.functional.pad(t[first : first + 32], (0, 0, 0, 32 - len(t[first : first + 32]))) for t in (key, value))
        score = multiply(query, k) / size**0.5
        score[first + torch.arange(32) > position] = -float("inf")
        new = torch.maximum(most, score.max(1, keepdim=True).values)
        weight, shrink = torch.exp(score - new), torch.exp(most - new)
        total = total * shrink + multiply(weight, torch.ones(1, 32))
        result = result * shrink + multiply(weight, v.T)
        most = new
    return result / total
