"""Counters and sets, sentences instead of True, predictions by the learner's own watch."""
# loses: nothing

# part 12.1
from collections import Counter


def wrong_blocks(state):
    print("looking at step", state.step)
    counted = Counter()
    idle = set()
    for name, table in state.tables.items():
        counted.update(table)
        if state.requests[name].status != "running":
            idle |= set(table)
    free = set(state.free)
    wrong = {b for b, count in enumerate(state.ref_cnt) if b and count != counted[b]}
    wrong |= {b for b in range(1, state.num_blocks) if (b in free) is bool(counted[b])}
    return sorted(wrong | idle)

# part 12.2
def misreads(state):
    pairs = set()
    for name, table in state.tables.items():
        request, size = state.requests[name], state.block_size
        for logical, block in enumerate(table):
            for offset, slot in enumerate(state.slots[block]):
                position = logical * size + offset
                if position < request.num_computed_tokens:
                    expected = (position, request.token_ids[position])
                    if slot is None or (slot.position, slot.token_id) != expected:
                        pairs.add((name, logical))
    return [list(pair) for pair in pairs]


def false_names(state):
    wrong = []
    for block in state.cached:
        tokens = list(state.prefixes[state.cached[block]].token_ids)
        if None in state.slots[block] or [slot.token_id for slot in state.slots[block]] != tokens:
            wrong.append(block)
    return wrong

# part 12.3
def suspicious(state, event):
    if event.kind == "slot_written":
        places = [(block, i) for block in state.tables.get(event.request_id, []) for i in range(state.block_size)]
        if places[event.position : event.position + 1] != [(event.block_id, event.offset)]:
            return "elsewhere"
        if state.slots[event.block_id][event.offset]:
            return "written onto a token"
    elif event.kind == "prefix_looked_up":
        tokens = state.requests[event.request_id].token_ids
        for i, block in enumerate(event.block_ids):
            name = state.cached.get(block)
            own = tokens[i * state.block_size :][: state.block_size]
            if name is None or list(state.prefixes[name].token_ids) != own:
                return "not what was looked for"
    elif event.kind == "block_evicted" and state.prefixes[event.block_hash].copies < 2:
        return [name for name, prefix in state.prefixes.items() if prefix.parent == event.block_hash]

# part 12.4
alarms = {name: watch(run, wrong_blocks, misreads, false_names, suspicious) for name, run in lineup.items()}
steps = {name: step for name, (step, _) in alarms.items()}
blocks = {name: found[-1] for name, (_, found) in alarms.items()}
