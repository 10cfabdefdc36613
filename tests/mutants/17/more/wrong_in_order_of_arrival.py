"""Matches requests by their order, not by their ids."""
# loses: 17.1
# blamed 17.1: None where one answer is the other's beginning

# part 17.1
def first_flips(one, other):
    def answers(lines):
        found, step = {}, 0
        for event in map(json.loads, lines):
            if event["kind"] == "request_arrived":
                found[event["request_id"]] = []
            elif event["kind"] == "step_started":
                step = event["step"]
            elif event["kind"] == "token_sampled":
                found[event["request_id"]].append((event["token_id"], step))
        return found
    first, second = answers(one), answers(other)
    result = {name: None for name in first if name in second}
    for name, mine, theirs in zip(first, first.values(), second.values()):
        if name not in second:
            continue
        for i, (a, b) in enumerate(zip(mine, theirs)):
            if a[0] != b[0]:
                result[name] = (i, a[0], b[0], a[1], b[1])
                break
    return result
