"""Wants no preemption at all."""
# loses: 09.2
# blamed 09.2: the setting meets the target, and None means that no setting does

# part 09.2
def choose(utilizations, limits, target, run):
    for utilization in reversed(utilizations):
        if run(utilization, limits[0]) is not None:
            break
    else:
        return None
    for limit in limits:
        if run(utilization, limit)["at_once"] >= target:
            return (utilization, limit) if not run(utilization, limit)['preemptions'] else None
    return None
