"""A block has one owner, the last."""
# loses: 10.1
# blamed 10.1: in a table are the blocks that the pool gave out or shared for its request, while it holds them

# part 10.1
def tables(calls):
    found, request = {}, None
    for call in calls:
        request = call["request"] or request  # the pool's calls follow the manager's call that makes them
        if call["method"] in ("touch", "get_new_blocks"):
            for table in found.values():
                table[:] = [block for block in table if block not in call["blocks"]]
            found[request] = found.get(request, []) + call["blocks"]
        elif call["method"] == "free":
            found.pop(request, None)
    return {name: table for name, table in found.items() if table}
