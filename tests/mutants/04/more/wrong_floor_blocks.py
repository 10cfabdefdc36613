"""Forgets the block that is not full."""
# loses: 04.1
# blamed 04.1: each request has just the blocks that it needs

# part 04.1
def waste(lengths, block_size):
    blocks = sum(length // block_size for length in lengths)
    return blocks, max(0, blocks * block_size - sum(lengths)), len(lengths) * (block_size - 1)
