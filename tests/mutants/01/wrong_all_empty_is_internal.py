"""Calls every slot internal that is held and not written."""
# loses: 01.2
# blamed 01.2: reserved slots are those that will be written, and are not yet

# part 01.2
def account(regions, holes, needs):
    token = sum(written for _, _, written in regions)
    held = sum(length for length, _, _ in regions)
    free = sum(holes)
    lost = needs is not None and max(holes, default=0) < needs <= free
    return [token, 0, held - token, free * lost, free * (not lost)]
