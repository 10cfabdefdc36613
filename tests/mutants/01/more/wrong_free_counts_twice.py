"""External slots are counted as free ones too."""
# loses: 01.2
# blamed 01.2: the free slots that are not external are free

# part 01.2
def account(regions, holes, needs):
    token = sum(written for _, _, written in regions)
    needed = sum(needed for _, needed, _ in regions)
    held = sum(length for length, _, _ in regions)
    free = sum(holes)
    lost = needs is not None and max(holes, default=0) < needs <= free
    return [token, needed - token, held - needed, free * lost, free]
