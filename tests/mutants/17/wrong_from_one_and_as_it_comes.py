"""Counts from 1; hands all rows over at once; one sum over all keys."""
# loses: 17.1 17.2 17.3
# blamed 17.1: the first place where the tokens differ, counted from 0 in the answer
# blamed 17.2: a row gets the same bits, however many rows come with it
# blamed 17.3: a prompt gets the same bits where its last token has a step of its own

# part 17.1
def first_flips(one, other):
    def answers(lines):
        found, step = {}, 0
        for event in map(json.loads, lines):
            if event["kind"] == "request_arrived":
                found[event["request_id"]] = []
            elif event["kind"] == "step_started":
                step = event["step"]
            elif event["kind"] == "token_sampled":
                found[event["request_id"]].append((event["token_id"], step))
        return found
    first, second = answers(one), answers(other)
    result = {name: None for name in first if name in second}
    for name in result:
        for i, (a, b) in enumerate(zip(first[name], second[name]), 1):
            if a[0] != b[0]:
                result[name] = (i, a[0], b[0], a[1], b[1])
                break
    return result

# part 17.2
def product(x, weight, library):
    return library(x, weight)

# part 17.3
def attend(query, key, value, multiply):
    n, size = query.shape
    length = len(key)
    scores = multiply(query, key) * size**-0.5
    hidden = torch.arange(length) > torch.arange(length - n, length)[:, None]
    weights = torch.softmax(scores.masked_fill(hidden, -torch.inf), 1)
    return multiply(weights, value.T)
