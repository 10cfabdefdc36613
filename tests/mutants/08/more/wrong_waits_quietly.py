"""Forgets the victim's status and its count."""
# loses: 08.3
# blamed 08.3: a victim has the status "preempted", and counts it

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
        victim = running.pop()
        manager.free(victim)
        victim.num_computed_tokens = 0
        waiting.appendleft(victim)
        preempted.append(victim)
    return scheduled, preempted
