"""Tells the pair the other way round: the bytes would be overwritten."""
# loses: 06.3
# blamed 06.3: a copy is told as the pair (source, destination)

# part 06.3
def append_slot(table, num_tokens, block_size, allocator):
    if num_tokens > len(table) * block_size:
        table.append(allocator.allocate())
        return None
    last = table[-1]
    if last.ref_cnt == 1:
        return None
    table[-1] = allocator.allocate()
    allocator.free(last)
    return table[-1].block_id, last.block_id
