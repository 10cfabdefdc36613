"""Returns the word in place of the error."""
# loses: 06.3
# blamed 06.3: where no block is free, the allocator's ValueError gets out and nothing has changed

# part 06.3
def append_slot(table, num_tokens, block_size, allocator):
    if num_tokens > len(table) * block_size:
        table.append(allocator.allocate())
        return None
    last = table[-1]
    if last.ref_cnt > 1 and not allocator.get_num_free_blocks():
        return "ValueError"
    if last.ref_cnt == 1:
        return None
    new = allocator.allocate()
    allocator.free(last)
    table[-1] = new
    return last.block_id, new.block_id
