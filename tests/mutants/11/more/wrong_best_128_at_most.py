"""Takes sizes up to 128."""
# loses: 11.2
# blamed 11.2: of equally good sizes it is the largest

# part 11.2
def best_block_size(sizes, lengths, num_slots, max_entries):
    best, most = None, -1
    for size in sorted(s for s in sizes if s <= 128):
        blocks = [-(-length // size) for length in lengths]
        if max(blocks) > max_entries:
            continue
        free, fit = num_slots // size, 0
        for needed in blocks:
            if needed > free:
                break
            free -= needed
            fit += 1
        if fit >= most:
            best, most = size, fit
    return best
