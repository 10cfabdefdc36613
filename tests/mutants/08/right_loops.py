"""Loops and helpers, written otherwise; prints as it goes."""
# loses: nothing

# part 08.1
from itertools import takewhile
from math import ceil


def swap_bytes(num_tokens, block_size, bytes_per_token):
    one_way = ceil(num_tokens / block_size) * block_size * bytes_per_token
    return one_way + one_way


def recompute_tokens(num_tokens, block_size, kept):
    leading = sum(1 for _ in takewhile(bool, kept))
    while leading * block_size >= num_tokens:
        leading -= 1
    return num_tokens - leading * block_size

# part 08.2
def swap_pays(num_tokens, sizes, machine):
    def swap(size):
        blocks = (num_tokens + size - 1) // size
        moving = size * machine["bytes_per_token"] / machine["bytes_per_second"]
        one_way = blocks * (machine["seconds_per_block"] + moving)
        return one_way * 2

    again = num_tokens / machine["tokens_per_second"] + machine["seconds_per_step"]
    return [size for size in sizes if again > swap(size)]

# part 08.3
def throw_out(victim, waiting, manager):
    print("out:", victim.request_id)
    manager.free(victim)
    victim.num_computed_tokens = 0
    victim.status = "preempted"
    victim.num_preemptions = victim.num_preemptions + 1
    waiting.insert(0, victim)


def schedule_running(running, waiting, manager):
    scheduled, preempted = [], []
    for request in running:  # victims are taken from the end, so the loop sees them no more
        wanted = request.num_tokens - request.num_computed_tokens
        while request in running and (blocks := manager.allocate_slots(request, wanted)) is None:
            preempted.append(running.pop())
            throw_out(preempted[-1], waiting, manager)
        if request in running:
            scheduled.append((request, blocks))
    return scheduled, preempted

# part 08.4
moment = puzzle(SEED)
order, free = list(moment.running), moment.free
victims, served = [], []
while order:
    name = order[0]
    prompt, generated, table = moment.running[name]
    if prompt + generated > 4 * len(table):
        while free == 0 and order:
            victims.append(order.pop())
            free += len(moment.running[victims[-1]][2])
        if not order:
            break
        free -= 1
    served.append(order.pop(0))
again = [sum(moment.running[name][:2]) for name in victims]
carried = [len(moment.running[name][2]) for name in victims]
