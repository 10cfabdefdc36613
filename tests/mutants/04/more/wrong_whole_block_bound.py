"""Takes a whole block for the bound."""
# loses: 04.1
# blamed 04.1: the bound holds for any lengths of so many requests, and some lengths reach it

# part 04.1
def waste(lengths, block_size):
    blocks = sum(-(-length // block_size) for length in lengths)
    return blocks, blocks * block_size - sum(lengths), len(lengths) * block_size
