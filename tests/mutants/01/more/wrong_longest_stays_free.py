"""Leaves the longest hole out of what is external."""
# loses: 01.2
# blamed 01.2: where the sum would do and no hole does, every free slot is external

# part 01.2
def account(regions, holes, needs):
    token = sum(written for _, _, written in regions)
    needed = sum(needed for _, needed, _ in regions)
    held = sum(length for length, _, _ in regions)
    free = sum(holes)
    longest = max(holes, default=0)
    lost = needs is not None and longest < needs <= free
    external = free - longest if lost else 0
    return [token, needed - token, held - needed, external, free - external]
