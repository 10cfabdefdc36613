"""Plain loops, and a list of results."""
# loses: nothing

# part 11.1
def costs(lengths, block_size, common):
    entries = empty = 0
    for length in lengths:
        blocks = 0
        while blocks * block_size < length:
            blocks += 1
        entries += blocks
        empty += blocks * block_size - length
    found = 0
    while found + block_size <= common:
        found += block_size
    return [entries, empty, found]

# part 11.2
def best_block_size(sizes, lengths, num_slots, max_entries):
    best = None
    for size in sizes:
        too_long = any((length + size - 1) // size > max_entries for length in lengths)
        if too_long:
            continue
        used = fit = 0
        for length in lengths:
            used += (length + size - 1) // size
            if used > num_slots // size:
                break
            fit += 1
        if best is None or (fit, size) > best:
            best = (fit, size)
    return best[1]
