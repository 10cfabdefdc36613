"""Writes into the shared block."""
# loses: 06.3
# blamed 06.3: where the last block is shared, the table gets a new one in its place

# part 06.3
def append_slot(table, num_tokens, block_size, allocator):
    if num_tokens > len(table) * block_size:
        table.append(allocator.allocate())
        return None
    return None
