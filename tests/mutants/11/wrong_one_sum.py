"""Adds the lengths up before it rounds: as if requests shared their last blocks."""
# loses: 11.1

# part 11.1
def costs(lengths, block_size, common):
    entries = -(-sum(lengths) // block_size)
    return entries, entries * block_size - sum(lengths), common // block_size * block_size
