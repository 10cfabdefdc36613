"""Compares only the slots that are written: a block that is half full may have a name."""
# loses: 12.2
# blamed 12.2: no call of your code ends in an error

# part 12.2
def misreads(state):
    found = []
    for name, table in state.tables.items():
        request = state.requests[name]
        for position in range(request.num_computed_tokens):
            logical, offset = divmod(position, state.block_size)
            slot = state.slots[table[logical]][offset]
            right = slot and (slot.position, slot.token_id) == (position, request.token_ids[position])
            if not right and (name, logical) not in found:
                found.append((name, logical))
    return found


def false_names(state):
    wrong = []
    for block, name in state.cached.items():
        pairs = zip(state.slots[block], state.prefixes[name].token_ids, strict=True)
        if any(slot is not None and slot.token_id != token for slot, token in pairs):
            wrong.append(block)
    return wrong
