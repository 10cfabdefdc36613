"""Gives out the budget token by token, and lives a request's life plan by plan."""
# loses: nothing

# part 13.1
def step(running, waiting, budget, seats, chunked):
    got, order = {}, []
    free = seats - len(running)

    def give(name, wanted):
        nonlocal budget
        while wanted > got.get(name, 0) and budget:
            if name not in got:
                order.append(name)
            got[name] = got.get(name, 0) + 1
            budget -= 1

    for r in running:
        give(r["name"], r["tokens"] - r["computed"])
    for r in waiting:
        wanted = r["tokens"] - r["found"]
        if not free or not budget or not (chunked or wanted <= budget):
            return [[name, got[name]] for name in order]
        give(r["name"], wanted)
        free -= 1
    return [[name, got[name]] for name in order]

# part 13.2
def samples(requests, shares):
    names = []
    for name, tokens in shares:
        for request in requests:
            if request["name"] == name and request["computed"] + tokens >= request["tokens"]:
                names.append(name)
    return names

# part 13.3
import math

def plan_ahead(request, budget, block_size):
    positions = range(request["computed"], request["tokens"] + request["awaited"])
    last = request["prompt"] + request["max_tokens"] - 1  # this position is never computed
    planned = [p for p in positions if p < last][:budget]
    held = math.ceil(request["computed"] / block_size)
    needed = planned[-1] // block_size + 1 if planned else held
    samples = bool(planned) and planned[-1] == positions[-1]
    return dict(tokens=len(planned), blocks=needed - held, awaited=request["awaited"] + int(samples))

# part 13.4
def one_ahead(prompt, sampled, stops, max_tokens, block_size):
    answer, held, plans, computed, under_way, coming = [], [], 0, 0, [], iter(sampled)
    while True:
        planned = len(answer) + sum(under_way) < max_tokens
        if planned:
            computed += prompt if plans == 0 else 1
            plans += 1
        held.append((computed + block_size - 1) // block_size)
        under_way.append(planned)
        if len(under_way) == 1:
            continue
        under_way.pop(0)
        answer.append(next(coming))
        if answer[-1] in stops or len(answer) == max_tokens:
            return {"answer": answer, "plans": plans, "dropped": sum(under_way), "held": held}
