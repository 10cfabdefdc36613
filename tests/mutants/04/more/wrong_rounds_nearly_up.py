"""Rounds up by adding a half and rounding."""
# loses: 04.1
# blamed 04.1: each request has just the blocks that it needs

# part 04.1
def waste(lengths, block_size):
    blocks = sum(round(length / block_size + 0.499) for length in lengths)
    return blocks, blocks * block_size - sum(lengths), len(lengths) * (block_size - 1)
