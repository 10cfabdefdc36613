"""0 in place of words."""
# loses: 09.1
# blamed 09.1: there is room when the null block and at least one more fit, and only then

# part 09.1
def pool_blocks(card, free, utilization, weights, activations, other, block):
    allowed = int(utilization * card)
    if allowed > free:
        return "out of memory"
    blocks = (allowed - weights - activations - other) // block
    return blocks if blocks >= 2 else 0
