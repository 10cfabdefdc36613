"""Looks at the remainder: misled by blocks of one token."""
# loses: 06.3
# blamed 06.3: where all blocks are full, a new block is appended, and None returned

# part 06.3
def append_slot(table, num_tokens, block_size, allocator):
    if num_tokens % block_size == 1:
        table.append(allocator.allocate())
        return None
    last = table[-1]
    if last.ref_cnt == 1:
        return None
    new = allocator.allocate()
    allocator.free(last)
    table[-1] = new
    return last.block_id, new.block_id
