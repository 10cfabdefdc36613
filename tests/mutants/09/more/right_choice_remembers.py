"""Keeps what it measured, and goes up by limits from the middle."""
# loses: nothing

# part 09.2
def choose(utilizations, limits, target, run):
    seen = {}

    def ask(u, m):
        if (u, m) not in seen:
            seen[u, m] = run(u, m)
        return seen[u, m]

    up = [u for u in utilizations[::-1]]
    while up and ask(up[0], limits[-1]) is None:
        del up[0]
    if not up:
        return None
    low, high = 0, len(limits) - 1
    if ask(up[0], limits[high])["at_once"] < target:
        return None
    while low < high:
        middle = (low + high) // 2
        if ask(up[0], limits[middle])["at_once"] >= target:
            high = middle
        else:
            low = middle + 1
    return [up[0], limits[low]]

# part 09.1
from fractions import Fraction


def pool_blocks(card, free, utilization, weights, activations, other, block):
    share = Fraction(utilization) * card
    if share > free:
        return "out of" + " memory"
    blocks, rest = divmod(int(share) - sum((weights, activations, other)), block)
    return "no room" if blocks in (0, 1) or blocks < 0 else int(blocks)
