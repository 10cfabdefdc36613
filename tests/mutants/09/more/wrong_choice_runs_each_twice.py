"""Runs every setting twice, to be sure."""
# loses: 09.2
# blamed 09.2: there are no more runs than utilizations and limits together

# part 09.2
def choose(utilizations, limits, target, run):
    for utilization in reversed(utilizations):
        if run(utilization, limits[0]) is not None:
            break
    else:
        return None
    for limit in limits:
        run(utilization, limit)
        run(utilization, limit)
        if run(utilization, limit)["at_once"] >= target:
            return utilization, limit
    return None
