"""Moves whole blocks, empty slots too."""
# loses: 04.3
# blamed 04.3: a step takes as long as its bytes do at this bandwidth, and makes one token for each request

# part 04.3
def batch_and_speed(memory, weights, per_token, block_size, context, bandwidth):
    each = -(-(context + 1) // block_size)
    batch = (memory - weights) // (block_size * per_token) // each
    return batch, batch * bandwidth / (weights + batch * each * block_size * per_token)
