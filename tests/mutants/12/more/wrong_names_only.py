"""A found block has a name; nobody looks whose."""
# loses: 12.3
# blamed 12.3: a lookup that finds what is not there raises an alarm

# part 12.3
def suspicious(state, event):
    size = state.block_size
    if event.kind == "slot_written":
        logical, offset = divmod(event.position, size)
        if (state.tables[event.request_id][logical], offset) != (event.block_id, event.offset):
            return True
        return state.slots[event.block_id][event.offset] is not None
    if event.kind == "prefix_looked_up":
        return any(block not in state.cached for block in event.block_ids)
    return False
