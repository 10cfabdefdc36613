"""Throws out one, and does not ask a second time."""
# loses: 08.3
# blamed 08.3: the victim is whoever was admitted last, as often as needed, and no oftener

# part 08.3
def schedule_running(running, waiting, manager):
    scheduled, preempted = [], []
    index = 0
    while index < len(running):
        request = running[index]
        num_tokens = request.num_tokens - request.num_computed_tokens
        new_blocks = manager.allocate_slots(request, num_tokens)
        if new_blocks is None:
            victim = running.pop()
            manager.free(victim)
            victim.status, victim.num_computed_tokens = "preempted", 0
            victim.num_preemptions += 1
            waiting.appendleft(victim)
            preempted.append(victim)
            if victim is request:
                break
            new_blocks = manager.allocate_slots(request, num_tokens)
        if new_blocks is not None:
            scheduled.append((request, new_blocks))
        index += 1
    return scheduled, preempted
