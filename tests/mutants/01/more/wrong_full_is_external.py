"""Counts free slots as external also where there are too few in sum."""
# loses: 01.2
# blamed 01.2: nothing is external where there is too little in sum

# part 01.2
def account(regions, holes, needs):
    token = sum(written for _, _, written in regions)
    needed = sum(needed for _, needed, _ in regions)
    held = sum(length for length, _, _ in regions)
    free = sum(holes)
    lost = needs is not None and max(holes, default=0) < needs
    return [token, needed - token, held - needed, free * lost, free * (not lost)]
