"""The last call's blocks are the table."""
# loses: 10.1
# blamed 10.1: in a table are the blocks that the pool gave out or shared for its request, while it holds them

# part 10.1
def tables(calls):
    found, request = {}, None
    for call in calls:
        request = call["request"] or request  # the pool's calls follow the manager's call that makes them
        if call["method"] in ("touch", "get_new_blocks"):
            found[request] = list(call["blocks"])
        elif call["method"] == "free":
            found.pop(request, None)
    return found
