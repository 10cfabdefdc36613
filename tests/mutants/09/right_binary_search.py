"""A list comprehension and a binary search over the limits; prints on the way."""
# loses: nothing

# added
import math

# part 09.1
def pool_blocks(card, free, utilization, weights, activations, other, block):
    print("asked for", utilization * card)
    if utilization * card > free:
        return "out of memory"
    blocks = math.floor((utilization * card - sum([weights, activations, other])) / block)
    return "no room" if blocks < 2 else blocks

# part 09.2
def choose(utilizations, limits, target, run):
    top = next((u for u in sorted(utilizations, reverse=True) if run(u, limits[-1])), None)
    if top is None:
        return None
    low, high = 0, len(limits)
    while low < high:
        middle = (low + high) // 2
        if run(top, limits[middle])["at_once"] >= target:
            high = middle
        else:
            low = middle + 1
    return None if low == len(limits) else (top, limits[low])
