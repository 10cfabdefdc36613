"""Counts on from the first slot, as if the next block were the neighbour."""
# loses: 03.2
# blamed 03.2: a slot lies inside the physical block of its position

# part 03.2
def slot_mapping(block_ids, block_size, start, end, pad_to=0):
    first = block_ids[start // block_size] * block_size + start % block_size if start < end else 0
    slots = list(range(first, first + end - start))
    return slots + [-1] * (pad_to - len(slots))
