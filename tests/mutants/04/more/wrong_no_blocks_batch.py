"""Divides the memory by tokens, not by blocks."""
# loses: 04.3
# blamed 04.3: the batch's blocks and the weights fit into memory together

# part 04.3
def batch_and_speed(memory, weights, per_token, block_size, context, bandwidth):
    batch = (memory - weights) // (per_token * (context + 1))
    return batch, batch * bandwidth / (weights + batch * (context + 1) * per_token)
