"""Moves K and V only."""
# loses: 04.3
# blamed 04.3: a step takes as long as its bytes do at this bandwidth, and makes one token for each request

# part 04.3
def batch_and_speed(memory, weights, per_token, block_size, context, bandwidth):
    batch = (memory - weights) // (block_size * per_token) // -(-(context + 1) // block_size)
    return batch, bandwidth / ((context + 1) * per_token) if batch else 0.0
