"""Block numbers in a string."""
# loses: 10.1
# blamed 10.1: tables returns a dict from request to its list of blocks

# part 10.1
def tables(calls):
    found, request = {}, None
    for call in calls:
        request = call["request"] or request  # the pool's calls follow the manager's call that makes them
        if call["method"] in ("touch", "get_new_blocks"):
            found[request] = found.get(request, []) + call["blocks"]
        elif call["method"] == "free":
            found.pop(request, None)
    return {name: str(table) for name, table in found.items()}
