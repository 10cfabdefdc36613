"""Never looks at max_entries: the smallest size always fits most."""
# loses: 11.2
# blamed 11.2: no request's table is longer than max_entries

# part 11.2
def best_block_size(sizes, lengths, num_slots, max_entries):
    def fit(size):
        free = num_slots // size
        count = 0
        for length in lengths:
            free -= -(-length // size)
            if free < 0:
                break
            count += 1
        return count
    return max(sizes, key=lambda size: (fit(size), size))
