"""A block number has 16 bits."""
# loses: 03.2
# blamed 03.2: a slot lies inside the physical block of its position

# part 03.2
def slot_mapping(block_ids, block_size, start, end, pad_to=0):
    slots = [(block_ids[p // block_size] % 65536) * block_size + p % block_size for p in range(start, end)]
    return slots + [-1] * (pad_to - len(slots))
