"""Right slots, but the caller's table is used up on the way."""
# loses: 03.2
# blamed 03.2: the caller's list of blocks stays as it was

# part 03.2
def slot_mapping(block_ids, block_size, start, end, pad_to=0):
    slots = []
    block = None
    for position in range(end):
        if position % block_size == 0:
            block = block_ids.pop(0)
        if position >= start:
            slots.append(block * block_size + position % block_size)
    return slots + [-1] * (pad_to - len(slots))
