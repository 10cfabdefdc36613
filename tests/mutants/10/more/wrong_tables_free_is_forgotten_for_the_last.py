"""The last free does not count."""
# loses: 10.1
# blamed 10.1: whoever holds blocks after the last call has a table, and nobody else

# part 10.1
def tables(calls):
    found, request = {}, None
    last = max((i for i, call in enumerate(calls) if call['method'] == 'free'), default=-1)
    for i, call in enumerate(calls):
        request = call["request"] or request  # the pool's calls follow the manager's call that makes them
        if call["method"] in ("touch", "get_new_blocks"):
            found[request] = found.get(request, []) + call["blocks"]
        elif call["method"] == "free" and i != last:
            found.pop(request, None)
    return found
