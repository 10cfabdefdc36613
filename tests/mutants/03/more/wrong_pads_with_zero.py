"""Pads with 0, which is a real slot."""
# loses: 03.2
# blamed 03.2: the places behind the last position hold -1

# part 03.2
def slot_mapping(block_ids, block_size, start, end, pad_to=0):
    slots = [0] * max(pad_to, end - start)
    for i, position in enumerate(range(start, end)):
        slots[i] = block_ids[position // block_size] * block_size + position % block_size
    return slots
