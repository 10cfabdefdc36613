"""Looks at those that run."""
# loses: 12.2
# blamed 12.2: whoever reads something else than its own tokens, each at its own position, is found

# part 12.2
def misreads(state):
    found = []
    for name, table in state.tables.items():
        request = state.requests[name]
        if request.status != 'running':
            continue
        for position in range(min(request.num_computed_tokens, len(table) * state.block_size)):
            logical, offset = divmod(position, state.block_size)
            slot = state.slots[table[logical]][offset]
            right = slot and slot.position == position and slot.token_id == request.token_ids[position]
            if not right:
                found.append((name, logical))
    return found


def false_names(state):
    return [
        block
        for block, name in state.cached.items()
        if tuple(slot and slot.token_id for slot in state.slots[block]) != tuple(state.prefixes[name].token_ids)
    ]
