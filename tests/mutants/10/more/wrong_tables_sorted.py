"""In ascending order."""
# loses: 10.1
# blamed 10.1: a table's blocks stand in the order in which the request got them

# part 10.1
def tables(calls):
    found, request = {}, None
    for call in calls:
        request = call["request"] or request  # the pool's calls follow the manager's call that makes them
        if call["method"] in ("touch", "get_new_blocks"):
            found[request] = sorted(found.get(request, []) + call["blocks"])
        elif call["method"] == "free":
            found.pop(request, None)
    return found
