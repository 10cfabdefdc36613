"""Never gives the old block back: it will never be free again."""
# loses: 06.3
# blamed 06.3: the shared block has one owner less after that

# part 06.3
def append_slot(table, num_tokens, block_size, allocator):
    if num_tokens > len(table) * block_size:
        table.append(allocator.allocate())
        return None
    last = table[-1]
    if last.ref_cnt == 1:
        return None
    table[-1] = allocator.allocate()
    return last.block_id, table[-1].block_id
