"""Takes what other programs hold off the pool as well."""
# loses: 09.1
# blamed 09.1: the pool is what is left over, in whole blocks

# part 09.1
def pool_blocks(card, free, utilization, weights, activations, other, block):
    allowed = int(utilization * card)
    if allowed > free:
        return "out of memory"
    blocks = (allowed - weights - activations - other - (card - free)) // block
    return blocks if blocks >= 2 else "no room"
