"""Only calls two deep count, of the first request."""
# loses: 10.1
# blamed 10.1: whoever holds blocks after the last call has a table, and nobody else

# part 10.1
def tables(calls):
    found, request = {}, None
    for call in calls:
        request = call["request"] or request  # the pool's calls follow the manager's call that makes them
        if call["method"] in ("touch", "get_new_blocks") and call["depth"] == 1:
            found[request] = found.get(request, []) + call["blocks"]
        elif call["method"] == "free":
            found.pop(request, None)
    return found
