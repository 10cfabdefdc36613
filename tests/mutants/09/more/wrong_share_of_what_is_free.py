"""Takes the share of what is free, and so never asks for too much."""
# loses: 09.1
# blamed 09.1: the engine does not come up when it asks for more than is free, and only then is out of memory

# part 09.1
def pool_blocks(card, free, utilization, weights, activations, other, block):
    blocks = (int(utilization * free) - weights - activations - other) // block
    return blocks if blocks >= 2 else "no room"
