"""A block may be free and held."""
# loses: 12.1
# blamed 12.1: a block that is free and in a table is found

# part 12.1
def wrong_blocks(state):
    wrong = set()
    for block in range(1, state.num_blocks):
        held = sum(table.count(block) for table in state.tables.values())
        if state.ref_cnt[block] != held or (block not in state.free and held == 0):
            wrong.add(block)
    for name, table in state.tables.items():
        if state.requests[name].status != "running":
            wrong.update(table)
    return sorted(wrong)
