"""Looks at the owners first, so that full shared blocks are copied."""
# loses: 06.3
# blamed 06.3: where all blocks are full, a new block is appended, and None returned

# part 06.3
def append_slot(table, num_tokens, block_size, allocator):
    last = table[-1]
    if last.ref_cnt > 1:
        table[-1] = allocator.allocate()
        allocator.free(last)
        return last.block_id, table[-1].block_id
    if num_tokens > len(table) * block_size:
        table.append(allocator.allocate())
        return None
