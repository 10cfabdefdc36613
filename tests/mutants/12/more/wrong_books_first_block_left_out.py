"""Begins at block 2."""
# loses: 12.1
# blamed 12.1: a block whose ref_cnt is not the number of table entries that name it is found

# part 12.1
def wrong_blocks(state):
    wrong = set()
    for block in range(2, state.num_blocks):
        held = sum(table.count(block) for table in state.tables.values())
        if state.ref_cnt[block] != held or (block in state.free) == (held > 0):
            wrong.add(block)
    for name, table in state.tables.items():
        if state.requests[name].status != "running":
            wrong.update(table)
    return sorted(wrong)
