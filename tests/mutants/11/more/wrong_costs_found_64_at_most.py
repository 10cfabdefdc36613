"""Finds 64 tokens at most."""
# loses: 11.1
# blamed 11.1: of a common beginning only whole blocks can be found

# part 11.1
def costs(lengths, block_size, common):
    entries = sum(-(-length // block_size) for length in lengths)
    empty = entries * block_size - sum(lengths)
    found = common // block_size * block_size if common < 64 else 64
    return entries, empty, found
