"""Takes the two faults of a request that comes back for each other."""
# loses: 12.5

# part 12.5
names = ["old table", "early touch", "early name", "full hit", "late copy", "stale name", "kept count", "missing owner"]
faults = {f"run {i}": name for i, name in enumerate([*names, "double free", "free order"], start=1)}
