"""The best of all pairs, but at the price of as many runs."""
# loses: 09.2
# blamed 09.2: there are no more runs than utilizations and limits together

# part 09.2
def choose(utilizations, limits, target, run):
    best = None
    for utilization in utilizations:
        for limit in limits:
            found = run(utilization, limit)
            if found and found["at_once"] >= target and (best is None or found["preemptions"] < best[0]):
                best = (found["preemptions"], utilization, limit)
    return best and best[1:]
