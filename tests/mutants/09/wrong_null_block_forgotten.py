"""One block is room enough; and stops at the first engine that does not come up."""
# loses: 09.1 09.2
# blamed 09.1: there is room when the null block and at least one more fit, and only then
# blamed 09.2: the setting meets the target, and None means that no setting does

# part 09.1
def pool_blocks(card, free, utilization, weights, activations, other, block):
    allowed = int(utilization * card)
    if allowed > free:
        return "out of memory"
    blocks = (allowed - weights - activations - other) // block
    return blocks if blocks > 0 else "no room"

# part 09.2
def choose(utilizations, limits, target, run):
    best = None
    for utilization in utilizations:
        if run(utilization, limits[0]) is None:
            break
        best = utilization
    if best is None:
        return None
    for limit in limits:
        if run(best, limit)["at_once"] >= target:
            return best, limit
    return None
