"""Fails where there is no hole."""
# loses: 01.2
# blamed 01.2: no call of your code ends in an error

# part 01.2
def account(regions, holes, needs):
    token = sum(written for _, _, written in regions)
    needed = sum(needed for _, needed, _ in regions)
    held = sum(length for length, _, _ in regions)
    free = sum(holes)
    lost = needs is not None and max(holes) < needs <= free
    return [token, needed - token, held - needed, free * lost, free * (not lost)]
