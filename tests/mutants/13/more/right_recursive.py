"""By recursion, sets and sums."""
# loses: nothing

# added
def blocks_for(tokens, size):
    return tokens // size + (tokens % size > 0)

# part 13.1
def step(running, waiting, budget, seats, chunked):
    if running:
        first, *rest = running
        n = min(budget, first["tokens"] - first["computed"])
        return ([(first["name"], n)] if n else []) + step(rest, waiting, budget - n, seats - 1, chunked)
    if not waiting or seats < 1 or budget < 1:
        return []
    first, *rest = waiting
    n = first["tokens"] - first["found"]
    if n > budget:
        return [(first["name"], budget)] if chunked else []
    return [(first["name"], n)] + step([], rest, budget - n, seats - 1, chunked)

# part 13.2
def samples(requests, shares):
    done = {r["name"]: r["computed"] for r in requests}
    for name, n in shares:
        done[name] += n
    complete = {r["name"] for r in requests if done[r["name"]] == r["tokens"]}
    return [name for name, n in shares if name in complete]

# part 13.3
def plan_ahead(request, budget, block_size):
    prompt, known, done, coming, most = (request[k] for k in ("prompt", "tokens", "computed", "awaited", "max_tokens"))
    n = 0 if known + coming - prompt >= most else min(budget, known + coming - done)
    more = blocks_for(done + n, block_size) - blocks_for(done, block_size)
    return {"awaited": coming + (n > 0 and done + n == known + coming) * 1, "tokens": n, "blocks": more}

# part 13.4
def one_ahead(prompt, sampled, stops, max_tokens, block_size):
    at = [i for i, token in enumerate(sampled[:max_tokens]) if token in stops]
    count = at[0] + 1 if at else max_tokens
    dropped = 1 if count < max_tokens else 0
    held = [blocks_for(prompt + k, block_size) for k in range(count + dropped)]
    if not dropped:
        held.append(held[-1])
    return {"answer": sampled[:count], "plans": count + dropped, "dropped": dropped, "held": held}
