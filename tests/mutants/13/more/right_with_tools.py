"""With itertools, generators and arrays."""
# loses: nothing

# added
from itertools import accumulate, takewhile

import numpy as np

# part 13.1
def step(running, waiting, budget, seats, chunked):
    wanted = [(r["name"], r["tokens"] - r["computed"]) for r in running]
    newcomers = [(r["name"], r["tokens"] - r["found"]) for r in waiting[: max(0, seats - len(running))]]
    spent = min(budget, sum(n for _, n in wanted))
    if not chunked:
        sums = accumulate((n for _, n in newcomers), initial=spent)
        fits = list(takewhile(lambda total: total <= budget, sums))
        newcomers = newcomers[: len(fits) - 1]
    ends = np.minimum(np.cumsum([0] + [n for _, n in wanted + newcomers]), budget)
    names = [name for name, _ in wanted + newcomers]
    return [(name, int(n)) for name, n in zip(names, np.diff(ends)) if n]

# part 13.2
def samples(requests, shares):
    step_of = dict(shares)
    full = [r["name"] for r in requests if r["name"] in step_of and r["tokens"] - r["computed"] == step_of[r["name"]]]
    return sorted(full, key=list(step_of).index)

# part 13.3
def plan_ahead(request, budget, block_size):
    r = request
    slots = np.arange(r["computed"], r["tokens"] + r["awaited"])
    if r["tokens"] + r["awaited"] == r["prompt"] + r["max_tokens"]:
        slots = slots[:0]
    planned = slots[:budget]
    new = int((planned % block_size == 0).sum())
    samples = len(slots) > 0 and len(planned) == len(slots)
    return {"tokens": len(planned), "blocks": new, "awaited": r["awaited"] + int(samples)}

# part 13.4
def one_ahead(prompt, sampled, stops, max_tokens, block_size):
    before = list(takewhile(lambda token: token not in stops, sampled[:max_tokens]))
    answer = sampled[: min(len(before) + 1, max_tokens)]
    late = len(answer) < max_tokens
    tokens = np.arange(prompt, prompt + len(answer) + late)
    held = np.ceil(tokens / block_size).astype(int).tolist()
    return {"answer": answer, "plans": len(answer) + late, "dropped": int(late), "held": held + held[-1:] * (not late)}
