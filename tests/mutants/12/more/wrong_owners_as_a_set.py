"""Asks only whether somebody holds the block, and not how many."""
# loses: 12.1
# blamed 12.1: a block whose ref_cnt is not the number of table entries that name it is found

# part 12.1
def wrong_blocks(state):
    wrong = set()
    for block in range(1, state.num_blocks):
        held = any(block in table for table in state.tables.values())
        if (state.ref_cnt[block] > 0) != held or (block in state.free) == held:
            wrong.add(block)
    for name, table in state.tables.items():
        if state.requests[name].status != "running":
            wrong.update(table)
    return sorted(wrong)
