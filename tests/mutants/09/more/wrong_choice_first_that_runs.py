"""The lowest utilization that comes up."""
# loses: 09.2
# blamed 09.2: the setting meets the target, and None means that no setting does

# part 09.2
def choose(utilizations, limits, target, run):
    for utilization in utilizations:
        if run(utilization, limits[0]) is not None:
            break
    else:
        return None
    for limit in limits:
        if run(utilization, limit)["at_once"] >= target:
            return utilization, limit
    return None
