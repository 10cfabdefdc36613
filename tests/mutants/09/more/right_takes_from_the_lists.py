"""Subtracts one after the other; takes utilizations off the list it was given."""
# loses: nothing

# part 09.1
def pool_blocks(card, free, utilization, weights, activations, other, block):
    allowed = card * utilization
    left, blocks = allowed, 0
    for taken in (weights, activations, other):
        left -= taken
    while left >= block:
        left -= block
        blocks += 1
    if allowed > free:
        return "out of memory"
    if blocks < 2:
        return "no room"
    return blocks

# part 09.2
def choose(utilizations, limits, target, run):
    found = None
    while utilizations and found is None:
        best = utilizations.pop()
        found = run(best, limits[0])
    if found is None:
        return None
    for limit in limits:
        if limit > limits[0]:
            found = run(best, limit)
        if found["at_once"] >= target:
            return [best, limit]
