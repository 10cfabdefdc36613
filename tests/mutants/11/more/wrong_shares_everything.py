"""Finds the whole common beginning, and chooses by slots instead of blocks."""
# loses: 11.1 11.2
# blamed 11.1: of a common beginning only whole blocks can be found
# blamed 11.2: with no other allowed size do more requests fit

# part 11.1
def costs(lengths, block_size, common):
    entries = sum((length + block_size - 1) // block_size for length in lengths)
    return entries, entries * block_size - sum(lengths), common

# part 11.2
def best_block_size(sizes, lengths, num_slots, max_entries):
    good = [size for size in sizes if -(-max(lengths) // size) <= max_entries]
    return max(good)
