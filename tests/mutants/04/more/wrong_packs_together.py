"""Puts all tokens into common blocks."""
# loses: 04.1
# blamed 04.1: each request has just the blocks that it needs

# part 04.1
def waste(lengths, block_size):
    blocks = -(-sum(lengths) // block_size)
    return blocks, blocks * block_size - sum(lengths), len(lengths) * (block_size - 1)
