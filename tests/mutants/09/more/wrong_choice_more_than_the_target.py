"""Exactly the target is not enough."""
# loses: 09.2
# blamed 09.2: no other setting that meets the target has fewer preemptions

# part 09.2
def choose(utilizations, limits, target, run):
    for utilization in reversed(utilizations):
        if run(utilization, limits[0]) is not None:
            break
    else:
        return None
    for limit in limits:
        if run(utilization, limit)["at_once"] > target:
            return utilization, limit
    return None
