"""Full blocks only."""
# loses: 11.1
# blamed 11.1: every request has one entry for each block that it holds, the last one too

# part 11.1
def costs(lengths, block_size, common):
    entries = sum(length // block_size for length in lengths)
    empty = entries * block_size - sum(lengths)
    found = common // block_size * block_size
    return entries, empty, found
