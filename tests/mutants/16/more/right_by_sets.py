"""With sets, strings of steps and look-ups."""
# loses: nothing

# part 16.1
def split_heads(query_heads, kv_heads, ranks):
    small, large = sorted((kv_heads, ranks))
    if query_heads % ranks or large % small:
        return None
    heads = []
    for rank in range(ranks):
        query = [head for head in range(query_heads) if head * ranks // query_heads == rank]
        heads.append({"query": query, "kv": sorted({head * kv_heads // query_heads for head in query})})
    return heads

# part 16.2
def on_each_card(model, ranks, card, block_size):
    number = model["bytes"] * model["hidden"]
    kv = -(-model["kv_heads"] // ranks)
    heads = 2 * model["query_heads"] // ranks + 2 * kv
    layer = heads * model["head_size"] + 3 * (model["neurons"] // ranks) + 2
    rows = (model["vocabulary"] + ranks - 1) // ranks * (2 - model["tied"])
    weights = number * (layer * model["layers"] + rows + 1)
    block = model["bytes"] * 2 * kv * model["head_size"] * model["layers"] * block_size
    return {"weights": weights, "block": block, "tokens": block_size * max(0, (card - weights - block) // block)}

# part 16.3
def wrong_sum(parts, sums):
    for i, those in enumerate(zip(*parts)):
        totals = [sum(numbers) for numbers in zip(*those)]
        room = [0.01 * sum(abs(n) for n in numbers) + 1e-9 for numbers in zip(*those)]

        def close(one, other):
            return all(abs(a - b) <= r for a, b, r in zip(one, other, room))

        right = {rank for rank in range(len(parts)) if close(sums[rank][i], totals)}
        others = set(range(len(parts))) - right
        if others and right:
            return others.pop(), i, "deaf"
        for rank in others:
            without = [total - mine for total, mine in zip(totals, those[rank])]
            if close(sums[rank][i], without):
                return rank, i, "silent"

# part 16.4
def wrong_rank(step, heads, ranks):
    size = step["block_size"]
    where = []
    for request in step["requests"]:
        for i in range(request["start"], request["end"]):
            block, offset = divmod(i, size)
            where.append(request["table"][block] * size + offset)
    for rank, did in enumerate(ranks):
        if did["wrote"] != where:
            return (rank, "table")
    for rank, did in enumerate(ranks):
        own = [h for h in range(len(heads)) if rank in range(h * len(ranks) // len(heads), -(-(h + 1) * len(ranks) // len(heads)))]
        for key, h in zip(did["keys"], own):
            if max(abs(a - b) for a, b in zip(key, heads[h])) >= 0.001:
                return (rank, "heads")
