"""Meets the target with the highest limit; and predicts that more memory never throws anybody out."""
# loses: 09.2 09.3
# blamed 09.2: no other setting that meets the target has fewer preemptions
# blamed 09.3: somebody is thrown out when a request needs its next block and none is free

# part 09.2
def choose(utilizations, limits, target, run):
    for utilization in reversed(utilizations):
        found = run(utilization, limits[-1])
        if found is not None:
            return (utilization, limits[-1]) if found["at_once"] >= target else None
    return None

# part 09.3
running = [3, 2, 5, 5]
preemptions = [1, 0, 0, 0]
