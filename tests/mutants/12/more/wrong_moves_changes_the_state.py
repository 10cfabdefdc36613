"""Sorts the free queue that it looks at."""
# loses: 12.3
# blamed 12.3: suspicious(state, event) can be asked about every event

# part 12.3
def suspicious(state, event):
    size = state.block_size
    state.free.sort()
    if event.kind == "slot_written":
        table, (logical, offset) = state.tables.get(event.request_id, []), divmod(event.position, size)
        if logical >= len(table) or (table[logical], offset) != (event.block_id, event.offset):
            return True
        return state.slots[event.block_id][event.offset] is not None
    if event.kind == "prefix_looked_up":
        tokens = state.requests[event.request_id].token_ids
        for logical, block in enumerate(event.block_ids):
            own = tuple(tokens[logical * size : (logical + 1) * size])
            if block not in state.cached or tuple(state.prefixes[state.cached[block]].token_ids) != own:
                return True
    if event.kind == "block_evicted":
        behind = [name for name, prefix in state.prefixes.items() if prefix.parent == event.block_hash]
        return bool(behind) and state.prefixes[event.block_hash].copies == 1
    return False
