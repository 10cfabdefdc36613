"""Asks for more than the target; and the common beginning counts for each request."""
# loses: 09.2 09.3
# blamed 09.2: the setting meets the target, and None means that no setting does
# blamed 09.3: requests come in by their order, as long as the door is open and there are blocks for their prompt

# part 09.2
def choose(utilizations, limits, target, run):
    for utilization in reversed(utilizations):
        if run(utilization, limits[0]) is not None:
            for limit in limits:
                if run(utilization, limit)["at_once"] > target:
                    return utilization, limit
            return None
    return None

# part 09.3
running = [3, 2, 5, 3]
preemptions = [1, 0, 2, 1]
