"""Leaves as much memory as it can to others, and meets the target there."""
# loses: 09.2
# blamed 09.2: the setting meets the target, and None means that no setting does

# part 09.2
def choose(utilizations, limits, target, run):
    left = len(utilizations) + len(limits)
    for utilization in utilizations:
        for limit in limits:
            if left == 0:
                return None
            left -= 1
            found = run(utilization, limit)
            if found is None:
                break
            if found["at_once"] >= target:
                return utilization, limit
    return None
