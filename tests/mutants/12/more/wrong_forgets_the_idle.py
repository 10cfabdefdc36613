"""Counts are right, but nobody asks who the owner is."""
# loses: 12.1
# blamed 12.1: a block held by a request that does not run is found

# part 12.1
def wrong_blocks(state):
    wrong = set()
    for block in range(1, state.num_blocks):
        held = sum(table.count(block) for table in state.tables.values())
        if state.ref_cnt[block] != held or (block in state.free) == (held > 0):
            wrong.add(block)
    return sorted(wrong)
