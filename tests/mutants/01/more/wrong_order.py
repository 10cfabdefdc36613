"""Internal and reserved change places."""
# loses: 01.2
# blamed 01.2: reserved slots are those that will be written, and are not yet

# part 01.2
def account(regions, holes, needs):
    token = sum(written for _, _, written in regions)
    needed = sum(needed for _, needed, _ in regions)
    held = sum(length for length, _, _ in regions)
    free = sum(holes)
    lost = needs is not None and max(holes, default=0) < needs <= free
    return [token, held - needed, needed - token, free * lost, free * (not lost)]
