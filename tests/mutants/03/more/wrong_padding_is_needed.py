"""Cannot be called without pad_to."""
# loses: 03.2
# blamed 03.2: no call of your code ends in an error

# part 03.2
def slot_mapping(block_ids, block_size, start, end, pad_to):
    slots = [block_ids[p // block_size] * block_size + p % block_size for p in range(start, end)]
    return slots + [-1] * (pad_to - len(slots))
