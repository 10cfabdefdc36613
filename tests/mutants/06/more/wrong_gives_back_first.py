"""Gives the block back before it knows that there is another one."""
# loses: 06.3
# blamed 06.3: where no block is free, the allocator's ValueError gets out and nothing has changed

# part 06.3
def append_slot(table, num_tokens, block_size, allocator):
    if num_tokens > len(table) * block_size:
        table.append(allocator.allocate())
        return None
    last = table[-1]
    if last.ref_cnt == 1:
        return None
    allocator.free(last)
    table[-1] = allocator.allocate()
    return last.block_id, table[-1].block_id
