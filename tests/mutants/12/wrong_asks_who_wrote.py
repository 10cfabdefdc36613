"""Takes every block that another request wrote for a fault."""
# loses: 12.2
# blamed 12.2: who reads its own tokens is not accused

# part 12.2
def misreads(state):
    found = []
    for name, table in state.tables.items():
        for position in range(state.requests[name].num_computed_tokens):
            logical, offset = divmod(position, state.block_size)
            slot = state.slots[table[logical]][offset]
            if (slot is None or slot.request_id != name) and (name, logical) not in found:
                found.append((name, logical))
    return found


def false_names(state):
    return [
        block
        for block, name in state.cached.items()
        if tuple(slot and slot.token_id for slot in state.slots[block]) != tuple(state.prefixes[name].token_ids)
    ]
