"""Starts every chunk at an offset of 0."""
# loses: 03.2
# blamed 03.2: a slot has its position's offset inside the block

# part 03.2
def slot_mapping(block_ids, block_size, start, end, pad_to=0):
    slots = []
    for i, position in enumerate(range(start, end)):
        slots.append(block_ids[position // block_size] * block_size + i % block_size)
    return slots + [-1] * (pad_to - len(slots))
