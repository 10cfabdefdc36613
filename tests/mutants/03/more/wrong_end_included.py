"""Takes the position `end` along."""
# loses: 03.2
# blamed 03.2: there is one number for each position from start on, up to and without end, and at least pad_to numbers

# part 03.2
def slot_mapping(block_ids, block_size, start, end, pad_to=0):
    slots = []
    for position in range(start, end + 1):
        block = block_ids[position // block_size] if position // block_size < len(block_ids) else 0
        slots.append(block * block_size + position % block_size)
    return slots + [-1] * (pad_to - len(slots))
