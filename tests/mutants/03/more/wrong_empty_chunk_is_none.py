"""None for an empty chunk."""
# loses: 03.2
# blamed 03.2: slot_mapping returns a list of plain ints

# part 03.2
def slot_mapping(block_ids, block_size, start, end, pad_to=0):
    slots = [block_ids[p // block_size] * block_size + p % block_size for p in range(start, end)]
    if not slots:
        return None
    return slots + [-1] * (pad_to - len(slots))
