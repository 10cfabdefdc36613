"""Plain loops, and answers written out by hand."""
# loses: nothing

# part 12.1
def wrong_blocks(state):
    answer = []
    for block in range(state.num_blocks):
        if block == 0:
            continue
        owners = [name for name in state.tables if block in state.tables[name]]
        entries = sum(entry == block for table in state.tables.values() for entry in table)
        idle = any(state.requests[name].status != "running" for name in owners)
        both, neither = owners and block in state.free, not owners and block not in state.free
        if entries != state.ref_cnt[block] or both or neither or idle:
            answer.append(block)
    return answer

# part 12.3
def suspicious(state, event):
    if event.kind == "slot_written":
        if event.request_id not in state.tables or event.block_id >= state.num_blocks:
            return True
        slot = event.block_id * state.block_size + event.offset
        table = state.tables[event.request_id]
        try:
            right = table[event.position // state.block_size] * state.block_size + event.position % state.block_size
        except IndexError:
            return True
        return slot != right or state.slots[event.block_id][event.offset] is not None
    if event.kind == "prefix_looked_up":
        for i, block in enumerate(event.block_ids):
            if block not in state.cached:
                return True
            start = i * state.block_size
            if start >= len(state.requests[event.request_id].token_ids):
                return True
            for j, token in enumerate(state.prefixes[state.cached[block]].token_ids):
                if state.requests[event.request_id].token_ids[start + j] != token:
                    return True
    if event.kind == "block_evicted":
        others = [b for b, name in state.cached.items() if name == event.block_hash and b != event.block_id]
        if not others:
            return any(prefix.parent == event.block_hash for prefix in state.prefixes.values())
    return False

# part 12.4
steps = {"run 1": 3, "run 2": 9, "run 3": 11, "run 4": 8, "run 5": 7}
steps |= {"run 6": 5, "run 7": 4, "run 8": 5, "run 9": 4, "run 10": 5}
blocks = {"run 1": 6, "run 2": 8, "run 3": 8, "run 4": 3, "run 5": 4, "run 6": 3, "run 7": 5, "run 8": 3, "run 9": 2, "run 10": 13}
