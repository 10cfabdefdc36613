"""Takes the two faults of a request that comes back for each other."""
# loses: 12.5
# blamed 12.5: each run has the fault that is in it

# part 12.5
names = ["full hit", "old table", "kept count", "stale name", "early touch", "missing owner", "early name", "free order"]
faults = {f"run {i}": name for i, name in enumerate([*names, "double free", "late copy"], start=1)}
