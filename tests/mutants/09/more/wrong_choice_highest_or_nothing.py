"""Tries the highest utilization only."""
# loses: 09.2
# blamed 09.2: the setting meets the target, and None means that no setting does

# part 09.2
def choose(utilizations, limits, target, run):
    utilization = utilizations[-1]
    if run(utilization, limits[0]) is None:
        return None
    for limit in limits:
        if run(utilization, limit)["at_once"] >= target:
            return utilization, limit
    return None
