"""Copies even where nobody else holds the block."""
# loses: 06.3
# blamed 06.3: where the last block has room and one owner, nothing changes and None is returned

# part 06.3
def append_slot(table, num_tokens, block_size, allocator):
    if num_tokens > len(table) * block_size:
        table.append(allocator.allocate())
        return None
    last, new = table[-1], allocator.allocate()
    allocator.free(last)
    table[-1] = new
    return last.block_id, new.block_id
