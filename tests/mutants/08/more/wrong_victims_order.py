"""Puts all victims at the head at the end, the last one first."""
# loses: 08.3
# blamed 08.3: victims wait at the head of the queue, before all who never ran

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
        victim.status = "preempted"
        victim.num_computed_tokens = 0
        victim.num_preemptions += 1
        preempted.append(victim)
    waiting.extendleft(reversed(preempted))
    return scheduled, preempted
