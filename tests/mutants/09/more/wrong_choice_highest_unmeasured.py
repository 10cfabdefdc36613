"""Chooses the highest utilization without a look."""
# loses: 09.2
# blamed 09.2: the engine comes up with the setting that you choose

# part 09.2
def choose(utilizations, limits, target, run):
    for utilization in reversed(utilizations):
        if run(utilization, limits[0]) is not None:
            break
    else:
        return None
    for limit in limits:
        if run(utilization, limit)["at_once"] >= target:
            return utilizations[-1], limit
    return None
