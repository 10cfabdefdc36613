"""A key for max, and an accumulated sum."""
# loses: nothing

# part 11.2
from itertools import accumulate


def best_block_size(sizes, lengths, num_slots, max_entries):
    def blocks(size):
        return [(length + size - 1) // size for length in lengths]

    def fit(size):
        return sum(total <= num_slots // size for total in accumulate(blocks(size)))

    return max((size for size in set(sizes) if max(blocks(size)) <= max_entries), key=lambda size: (fit(size), size))

# part 11.1
def costs(lengths, block_size, common):
    held = [list(range(0, length, block_size)) for length in lengths]
    entries = sum(map(len, held))
    empty = sum(-length % block_size for length in lengths)
    return [entries, empty, common - common % block_size]
