"""Throws out whoever was admitted first."""
# loses: 08.3
# blamed 08.3: the victim is whoever was admitted last, as often as needed, and no oftener

# part 08.3
def schedule_running(running, waiting, manager):
    scheduled, preempted = [], []
    index = 0
    while index < len(running):
        request = running[index]
        new_blocks = manager.allocate_slots(request, request.num_tokens - request.num_computed_tokens)
        if new_blocks is not None:
            scheduled.append((request, new_blocks))
            index += 1
            continue
        victim = running.pop(0)
        manager.free(victim)
        victim.status = "preempted"
        victim.num_computed_tokens = 0
        victim.num_preemptions += 1
        waiting.appendleft(victim)
        preempted.append(victim)
    return scheduled, preempted
