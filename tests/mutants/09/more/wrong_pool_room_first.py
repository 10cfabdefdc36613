"""Looks for room first."""
# loses: 09.1
# blamed 09.1: the engine does not come up when it asks for more than is free, and only then is out of memory

# part 09.1
def pool_blocks(card, free, utilization, weights, activations, other, block):
    allowed = int(utilization * card)
    blocks = (allowed - weights - activations - other) // block
    if blocks < 2:
        return "no room"
    return "out of memory" if allowed > free else blocks
