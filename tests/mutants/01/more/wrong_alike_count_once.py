"""Two regions that are alike count as one."""
# loses: 01.2
# blamed 01.2: a slot that is written holds a token

# part 01.2
def account(regions, holes, needs):
    token = sum(written for _, _, written in set(map(tuple, regions)))
    needed = sum(needed for _, needed, _ in regions)
    held = sum(length for length, _, _ in regions)
    free = sum(holes)
    fits = any(hole >= needs for hole in holes) if needs is not None else True
    external = free if not fits and needs <= free else 0
    return [token, needed - token, held - needed, external, free - external]
