"""Whole blocks, but as a float."""
# loses: 09.1
# blamed 09.1: pool_blocks returns a plain int, "out of memory" or "no room"

# part 09.1
def pool_blocks(card, free, utilization, weights, activations, other, block):
    if utilization * card > free:
        return "out of memory"
    blocks = (utilization * card - weights - activations - other) // block
    return blocks if blocks >= 2 else "no room"
