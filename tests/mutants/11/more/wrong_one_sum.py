"""Adds the lengths up before it rounds: as if requests shared their last blocks."""
# loses: 11.1
# blamed 11.1: every request has one entry for each block that it holds, the last one too

# part 11.1
def costs(lengths, block_size, common):
    entries = -(-sum(lengths) // block_size)
    return entries, entries * block_size - sum(lengths), common // block_size * block_size
