"""Divides the memory by tokens, not by blocks."""
# loses: 04.3

# part 04.3
def batch_and_speed(memory, weights, per_token, block_size, context, bandwidth):
    batch = (memory - weights) // (per_token * (context + 1))
    return batch, batch * bandwidth / (weights + batch * (context + 1) * per_token)
