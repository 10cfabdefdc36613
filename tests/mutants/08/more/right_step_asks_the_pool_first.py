"""Helpers inside, fractions for seconds, ceilings by tools."""
# loses: nothing

# part 08.3
def schedule_running(running, waiting, manager):
    scheduled, preempted, at = [], [], 0

    def out():
        victim = running.pop(len(running) - 1)
        manager.free(victim)
        victim.status, victim.num_computed_tokens = "preempted", 0
        victim.num_preemptions = victim.num_preemptions + 1
        waiting.insert(0, victim)
        preempted.append(victim)
        return victim

    while True:
        if at >= len(running):
            return [list(pair) for pair in scheduled], preempted
        me = running[at]
        todo = me.num_tokens - me.num_computed_tokens
        while (blocks := manager.allocate_slots(me, todo)) is None:
            if out() is me:
                break
        else:
            scheduled.append((me, blocks))
            at += 1

# part 08.1
import math


def swap_bytes(num_tokens, block_size, bytes_per_token):
    there = math.ceil(num_tokens / block_size) * block_size * bytes_per_token
    return there + there


def recompute_tokens(num_tokens, block_size, kept):
    leading = next((i for i, there in enumerate(kept) if not there), len(kept))
    while leading * block_size >= num_tokens:
        leading -= 1
    return num_tokens - leading * block_size

# part 08.2
from fractions import Fraction


def swap_pays(num_tokens, sizes, machine):
    of = {name: Fraction(value) for name, value in machine.items()}

    def carried(size):
        blocks = math.ceil(Fraction(num_tokens, size))
        return 2 * blocks * (of["seconds_per_block"] + size * of["bytes_per_token"] / of["bytes_per_second"])

    limit = of["seconds_per_step"] + num_tokens / of["tokens_per_second"]
    return list(filter(lambda size: carried(size) < limit, sizes))
