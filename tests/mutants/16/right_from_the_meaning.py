"""Each query head asks for its KV head; each matrix is counted; wrong sums are looked for with arrays; slots are a set of steps."""
# loses: nothing

# added
import numpy as np

# part 16.1
def split_heads(query_heads, kv_heads, ranks):
    if query_heads % ranks:
        return None
    owners = {}
    heads = [{"query": [], "kv": []} for _ in range(ranks)]
    for head in range(query_heads):
        rank, kv = head // (query_heads // ranks), head // (query_heads // kv_heads)
        heads[rank]["query"].append(head)
        owners.setdefault(kv, set()).add(rank)
        if kv not in heads[rank]["kv"]:
            heads[rank]["kv"].append(kv)
    sizes = {len(one["kv"]) for one in heads}
    copies = {len(those) for those in owners.values()}
    whole = sizes == {1} if ranks > kv_heads else copies == {1}
    return heads if len(sizes) == len(copies) == 1 and whole else None

# part 16.2
import math

def on_each_card(model, ranks, card, block_size):
    m = model
    q = m["query_heads"] / ranks
    kv = m["kv_heads"] / ranks if ranks < m["kv_heads"] else 1
    numbers = 0
    for _ in range(m["layers"]):
        numbers += 2 * q * m["head_size"] * m["hidden"]
        numbers += 2 * kv * m["head_size"] * m["hidden"]
        numbers += 3 * m["neurons"] / ranks * m["hidden"]
        numbers += 2 * m["hidden"]
    for _ in range(1 if m["tied"] else 2):
        numbers += math.ceil(m["vocabulary"] / ranks) * m["hidden"]
    numbers += m["hidden"]
    weights = round(numbers) * m["bytes"]
    block = round(2 * m["layers"] * kv * m["head_size"]) * block_size * m["bytes"]
    fit = 0
    if card > weights:
        fit = (card - weights) // block
    return dict(weights=weights, block=block, tokens=(fit - 1) * block_size if fit else 0)

# part 16.3
def wrong_sum(parts, sums):
    those, went_on = np.array(parts), np.array(sums)
    totals, room = those.sum(0), 0.01 * np.abs(those).sum(0) + 1e-9
    wrong = (np.abs(went_on - totals) > room).any(-1)  # [rank, all-reduce]
    for i in range(wrong.shape[1]):
        if wrong[:, i].all():
            missing = [np.abs(totals[i] - those[rank, i] - went_on[0, i]).max() for rank in range(len(parts))]
            return int(np.argmin(missing)), i, "silent"
        if wrong[:, i].any():
            return int(np.argmax(wrong[:, i])), i, "deaf"
    return None

# part 16.4
def wrong_rank(step, heads, ranks):
    size, slots = step["block_size"], []
    for request in step["requests"]:
        mine = [block * size + offset for block in request["table"] for offset in range(size)]
        slots += mine[request["start"] : request["end"]]
    copies = max(1, len(ranks) // len(heads))
    each = max(1, len(heads) // len(ranks))
    for rank in range(len(ranks)):
        if ranks[rank]["wrote"] != slots:
            return rank, "table"
        own = heads[rank // copies * each : rank // copies * each + each]
        if not np.allclose(ranks[rank]["keys"], own, atol=1e-3):
            return rank, "heads"
