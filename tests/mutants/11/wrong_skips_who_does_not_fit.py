"""Lets later, shorter requests overtake one that does not fit."""
# loses: 11.2 11.3
# blamed 11.2: with no other allowed size do more requests fit
# blamed 11.3: requests come in by their order, as long as there are blocks for their prompt

# part 11.2
def best_block_size(sizes, lengths, num_slots, max_entries):
    def fit(size):
        free, count = num_slots // size, 0
        for length in lengths:
            need = -(-length // size)
            if need <= free:
                free, count = free - need, count + 1
        return count
    good = [size for size in sizes if -(-max(lengths) // size) <= max_entries]
    return max(good, key=lambda size: (fit(size), size))

# part 11.3
running = [8, 7, 3]
empty = [3, 75, 122]
