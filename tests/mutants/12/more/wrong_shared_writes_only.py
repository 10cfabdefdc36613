"""Takes each write into a shared block for a fault, and no other: V1 shares blocks in the step that fills them."""
# loses: 12.3
# blamed 12.3: an event that breaks no rule raises no alarm

# part 12.3
def suspicious(state, event):
    if event.kind == "slot_written":
        return state.ref_cnt[event.block_id] > 1
    if event.kind == "prefix_looked_up":
        return any(block not in state.cached for block in event.block_ids)
    if event.kind == "block_evicted":
        return any(prefix.parent == event.block_hash for prefix in state.prefixes.values())
    return False
