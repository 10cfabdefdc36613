"""Forgets the block that is not full."""
# loses: 04.1

# part 04.1
def waste(lengths, block_size):
    blocks = sum(length // block_size for length in lengths)
    return blocks, max(0, blocks * block_size - sum(lengths)), len(lengths) * (block_size - 1)
