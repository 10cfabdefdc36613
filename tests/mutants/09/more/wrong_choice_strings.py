"""Words in place of numbers."""
# loses: 09.2
# blamed 09.2: choose returns one of the utilizations with one of the limits, or None

# part 09.2
def choose(utilizations, limits, target, run):
    for utilization in reversed(utilizations):
        if run(utilization, limits[0]) is not None:
            break
    else:
        return None
    for limit in limits:
        if run(utilization, limit)["at_once"] >= target:
            return str(utilization), str(limit)
    return None
