"""Calls all holes but the longest external, whoever waits."""
# loses: 01.2
# blamed 01.2: nothing is external where nobody waits

# part 01.2
def account(regions, holes, needs):
    token = sum(written for _, _, written in regions)
    needed = sum(needed for _, needed, _ in regions)
    held = sum(length for length, _, _ in regions)
    free = sum(holes)
    longest = max(holes, default=0)
    return [token, needed - token, held - needed, free - longest, longest]
