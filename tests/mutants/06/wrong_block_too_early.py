"""Takes a block when the last one becomes full, one token too early."""
# loses: 06.3
# blamed 06.3: where the last block has room and one owner, nothing changes and None is returned

# part 06.3
def append_slot(table, num_tokens, block_size, allocator):
    if num_tokens >= len(table) * block_size:
        table.append(allocator.allocate())
        return None
    last = table[-1]
    if last.ref_cnt == 1:
        return None
    table[-1] = allocator.allocate()
    allocator.free(last)
    return last.block_id, table[-1].block_id
