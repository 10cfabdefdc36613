"""The largest that is allowed."""
# loses: 11.2
# blamed 11.2: with no other allowed size do more requests fit

# part 11.2
def best_block_size(sizes, lengths, num_slots, max_entries):
    best, most = None, -1
    for size in sorted(sizes):
        blocks = [-(-length // size) for length in lengths]
        if max(blocks) > max_entries:
            continue
        free, fit = num_slots // size, 0
        for needed in blocks:
            if needed > free:
                break
            free -= needed
            fit += 1
        if size >= (best or 0):
            best, most = size, fit
    return best
