"""Looks at tokens that are not computed yet, and takes their empty slots for a fault."""
# loses: 12.2
# blamed 12.2: who reads its own tokens is not accused

# part 12.2
def misreads(state):
    found = []
    for name, table in state.tables.items():
        tokens = state.requests[name].token_ids
        for position in range(min(len(tokens), len(table) * state.block_size)):
            logical, offset = divmod(position, state.block_size)
            slot = state.slots[table[logical]][offset]
            if (slot is None or slot.token_id != tokens[position]) and (name, logical) not in found:
                found.append((name, logical))
    return found


def false_names(state):
    return [
        block
        for block, name in state.cached.items()
        if tuple(slot and slot.token_id for slot in state.slots[block]) != tuple(state.prefixes[name].token_ids)
    ]
