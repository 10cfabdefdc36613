"""One token is left out."""
# loses: 11.1
# blamed 11.1: of a common beginning only whole blocks can be found

# part 11.1
def costs(lengths, block_size, common):
    entries = sum(-(-length // block_size) for length in lengths)
    empty = entries * block_size - sum(lengths)
    found = max(0, common - 1) // block_size * block_size
    return entries, empty, found
