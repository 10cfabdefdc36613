"""Fails for no requests."""
# loses: 04.1
# blamed 04.1: no call of your code ends in an error

# part 04.1
def waste(lengths, block_size):
    blocks = sum(-(-length // block_size) for length in lengths)
    return blocks, blocks * block_size - sum(lengths), max(len(lengths), lengths[0] * 0 + 1) * (block_size - 1)
