"""Adds pad_to entries."""
# loses: 03.2
# blamed 03.2: there is one number for each position from start on, up to and without end, and at least pad_to numbers

# part 03.2
def slot_mapping(block_ids, block_size, start, end, pad_to=0):
    slots = [block_ids[p // block_size] * block_size + p % block_size for p in range(start, end)]
    return slots + [-1] * (pad_to)
