"""A block more than is needed where a request ends with a block; and takes the first of equals."""
# loses: 11.1 11.2
# blamed 11.1: every request has one entry for each block that it holds, the last one too
# blamed 11.2: of equally good sizes it is the largest

# part 11.1
def costs(lengths, block_size, common):
    entries = sum(length // block_size + 1 for length in lengths)
    return entries, entries * block_size - sum(lengths), common - common % block_size

# part 11.2
def best_block_size(sizes, lengths, num_slots, max_entries):
    def fit(size):
        free = num_slots // size
        for i, length in enumerate(lengths):
            free -= -(-length // size)
            if free < 0:
                return i
        return len(lengths)
    good = sorted(size for size in sizes if -(-max(lengths) // size) <= max_entries)
    return max(good, key=fit)
