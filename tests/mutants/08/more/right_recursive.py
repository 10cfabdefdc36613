"""Recursion for the step, arithmetic without loops for the prices."""
# loses: nothing

# part 08.1
def swap_bytes(num_tokens, block_size, bytes_per_token):
    blocks, rest = divmod(num_tokens, block_size)
    return (blocks + (rest > 0)) * block_size * bytes_per_token * 2


def recompute_tokens(num_tokens, block_size, kept):
    leading = kept.index(False) if False in kept else len(kept)
    return num_tokens - block_size * min(leading, (num_tokens - 1) // block_size)

# part 08.2
def swap_pays(num_tokens, sizes, machine):
    pays = []
    for size in sizes:
        full, rest = divmod(num_tokens, size)
        blocks = full + bool(rest)
        seconds = 0.0
        for _way in ("out", "in"):
            seconds += blocks * machine["seconds_per_block"]
            seconds += blocks * size * machine["bytes_per_token"] / machine["bytes_per_second"]
        if seconds < machine["seconds_per_step"] + num_tokens / machine["tokens_per_second"]:
            pays += [size]
    return pays

# part 08.3
def room_for(request, running, waiting, manager, preempted):
    blocks = manager.allocate_slots(request, request.num_tokens - request.num_computed_tokens)
    if blocks is not None:
        return blocks
    last = running[-1]
    del running[-1]
    manager.free(last)
    last.status, last.num_computed_tokens, last.num_preemptions = "preempted", 0, last.num_preemptions + 1
    waiting.appendleft(last)
    preempted.append(last)
    return None if last is request else room_for(request, running, waiting, manager, preempted)


def schedule_running(running, waiting, manager):
    scheduled, preempted = [], []
    while len(scheduled) < len(running):
        request = running[len(scheduled)]
        blocks = room_for(request, running, waiting, manager, preempted)
        if blocks is None:
            break
        scheduled.append((request, blocks))
    return scheduled, preempted
