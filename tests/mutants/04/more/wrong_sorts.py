"""Sorts the caller's list."""
# loses: 04.1
# blamed 04.1: the list of lengths stays as it was

# part 04.1
def waste(lengths, block_size):
    lengths.sort()
    blocks = sum(-(-length // block_size) for length in lengths)
    return blocks, blocks * block_size - sum(lengths), len(lengths) * (block_size - 1)
